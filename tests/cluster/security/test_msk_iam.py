"""AWS_MSK_IAM with Amazon's own login module. There is no broker that has it, so none accepts."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from urllib.parse import quote

import pytest
from py4j.java_gateway import JVMView

from replication.kafka.jvm import CLIENT_JARS, java_map, kafka_jars, open_jvm
from tests.support.commands import replication
from tests.support.local import Clusters, jars
from tests.support.mirror_files import write_config
from tests.support.secured import Secured

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MECHANISM = "AWS_MSK_IAM"
PACKAGE = "software.amazon.msk.auth.iam"
JAAS = f"{PACKAGE}.IAMLoginModule required;"
BROKER = "b-1.mirror.abc.c2.kafka.eu-west-1.amazonaws.com"
ACCESS, SECRET = "AKIDEXAMPLE", "a secret of nobody"


@pytest.fixture
def _jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's jar and somebody's credentials, as on a machine that runs the mirror."""
    (jar,) = jars("msk", override="MSK_JARS").glob("aws-msk-iam-auth-*-all.jar")
    monkeypatch.setenv(CLIENT_JARS, str(jar))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("_jar")
def test_the_client_signs_with_the_credentials_of_the_machine() -> None:
    with open_jvm(kafka_jars()) as jvm:
        token: dict[str, str] = json.loads(first_message(jvm))

    day = token["x-amz-date"][:8]
    assert token["host"] == BROKER
    assert token["action"] == "kafka-cluster:Connect"
    assert token["x-amz-credential"] == f"{ACCESS}/{day}/eu-west-1/kafka-cluster/aws4_request"
    assert token["x-amz-signature"] == signature(token)
    assert SECRET not in str(token)


def first_message(jvm: JVMView) -> bytes:
    """What Kafka's client would send to the broker first, by the classes that it loads."""
    password = jvm.org.apache.kafka.common.config.types.Password(JAAS)
    context = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(
        java_map(jvm, {"sasl.jaas.config": password})
    )
    entries = context.configurationEntries()
    jvm.java.lang.Class.forName(entries.get(0).getLoginModuleName())  # it registers the mechanism
    handler = jvm.software.amazon.msk.auth.iam.IAMClientCallbackHandler()
    handler.configure(jvm.java.util.HashMap(), MECHANISM, entries)
    client = jvm.javax.security.sasl.Sasl.createSaslClient(
        jvm.java.util.regex.Pattern.compile(",").split(MECHANISM),  # an array with one name
        *(None, "kafka", BROKER, None, handler),
    )
    return bytes(client.evaluateChallenge(bytearray()))


def signature(token: Mapping[str, str]) -> str:
    """The signature of a request with *token*'s values, by version 4 of Amazon's rules."""
    names = (
        "Action",
        *(f"X-Amz-{name}" for name in ("Algorithm", "Credential", "Date", "Expires")),
    )
    query = [(name, token[name.lower()]) for name in (*names, "X-Amz-SignedHeaders")]
    encoded = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query))
    nothing = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{encoded}\nhost:{token['host']}\n\nhost\n{nothing}"
    _, *scope = token["x-amz-credential"].split("/")
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{token['x-amz-date']}\n{'/'.join(scope)}\n{digest}"
    return reduce(sign, [*scope, text], f"AWS4{SECRET}".encode()).hex()


def sign(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


@pytest.mark.usefixtures("_jar")
def test_a_broker_without_the_mechanism_is_explained_in_one_line(
    secured: Secured, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config = config_of(secured, clusters, tmp_path, topic_name)

    plan = replication("plan", config)

    assert plan.returncode == 3, plan.stdout + plan.stderr
    (line,) = plan.stderr.splitlines()
    for part in (
        f"cluster B (bootstrap.servers={secured.servers('SCRAM')}, ",
        "sasl.mechanism=AWS_MSK_IAM",
        "SCRAM-SHA-512",  # on a slow machine in other words than on a fast one
        "set B.sasl.mechanism to ",
    ):
        assert part in line
    assert SECRET not in line


def test_without_the_jar_the_error_names_it_and_where_it_belongs(
    secured: Secured,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(CLIENT_JARS, raising=False)
    config = config_of(secured, clusters, tmp_path, topic_name)

    plan = replication("plan", config)

    assert plan.returncode == 3, plan.stdout + plan.stderr
    (line,) = plan.stderr.splitlines()
    assert "cluster B (" in line
    assert "./spark-submit.sh --setup msk fetches aws-msk-iam-auth-*-all.jar" in line
    assert "CLIENT_JARS" in line


def config_of(secured: Secured, clusters: Clusters, folder: Path, topic: str) -> Path:
    target = {
        **secured.client("SCRAM"),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": JAAS,
        "sasl.client.callback.handler.class": f"{PACKAGE}.IAMClientCallbackHandler",
    }
    return write_config(folder, (clusters[0], secured.broker), topic, {"B": target})
