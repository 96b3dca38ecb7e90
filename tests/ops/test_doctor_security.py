"""``doctor`` finds what is wrong with certificates, logins and permissions, and what mends it."""

from pathlib import Path

import pytest

from replication.config.file import load_config
from replication.demo.workload import create_topic
from replication.model import Flow
from tests.support.cli import run
from tests.support.doctored import assert_healthy, await_fault, look, only, problem
from tests.support.flows import unique_flow
from tests.support.least_privilege import (
    Strict,
    grant,
    grant_needed,
    grant_printed,
    line_for,
    revoke,
)
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.quotas import set_quota
from tests.support.secured import USER, Secured

pytestmark = pytest.mark.cluster


@pytest.fixture
def secured_flow(
    secured: Secured, clusters: Clusters, tmp_path: Path, topic_name: str
) -> "SecuredFlow":
    """Writes files of a flow from a listener of the secured broker."""
    create_topic(secured.broker.bootstrap, topic_name, 1)
    return SecuredFlow(secured, clusters, tmp_path, topic_name)


class SecuredFlow:
    """A flow whose source has listeners of every kind."""

    def __init__(self, secured: Secured, clusters: Clusters, folder: Path, topic: str) -> None:
        self._secured = secured
        self._clusters = (secured.broker, clusters[1])
        self._folder, self._topic = folder, topic
        self._flow = unique_flow()

    @property
    def source(self) -> str:
        """Its alias."""
        return self._flow.source

    def file(self, listener: str, **other: str | None) -> Path:
        """The file of a flow from *listener*; ``_`` in a key of *other* stands for a dot.

        A key whose value is None is not in it.
        """
        wanted = {key.replace("_", "."): value for key, value in other.items()}
        properties = {**self._secured.client(listener), **wanted}
        own = {key: value for key, value in properties.items() if value is not None}
        more = {self._flow.source: own}
        return write_config(self._folder, self._clusters, self._topic, more, self._flow)


def test_a_certificate_of_a_broker_that_has_ended(secured_flow: SecuredFlow) -> None:
    code, rows = look(secured_flow.file("EXPIRED"))

    assert code == 3
    assert rows[0]["found"].startswith("ended on ")
    assert "renew the certificate" in rows[0]["next_step"]
    assert_healthy(secured_flow.file("TLS"))


def test_a_certificate_of_a_broker_that_ends_soon(secured_flow: SecuredFlow) -> None:
    code, rows = look(secured_flow.file("SOON"))

    assert code == 0
    assert only(rows)["verdict"] == "warning"
    assert only(rows)["found"].endswith("9 days left")
    assert_healthy(secured_flow.file("TLS"))


@pytest.mark.parametrize(
    ("store", "code", "found"), [("expired", 3, "ended on "), ("soon", 0, "valid until ")]
)
def test_the_certificate_of_a_client(
    secured: Secured, secured_flow: SecuredFlow, store: str, code: int, found: str
) -> None:
    file = secured_flow.file(
        "MTLS", ssl_keystore_location=secured.certificates.path(f"{store}.p12")
    )

    end, rows = look(file)

    key = f"{secured_flow.source}.ssl.keystore.location"
    own = only([row for row in rows if row["what"] == f"certificate in {key}"])
    assert end == code
    assert own["found"].startswith(found)
    assert f"renew the certificate in {key}" in own["next_step"]
    assert_healthy(secured_flow.file("MTLS"))


def test_a_client_without_a_certificate(secured: Secured, secured_flow: SecuredFlow) -> None:
    file = secured_flow.file("MTLS", **dict.fromkeys(secured.keystore("PKCS12"), None))

    code, rows = look(file)

    assert code == 3
    assert f"set {secured_flow.source}.ssl.keystore.location" in problem(rows)["next_step"]
    assert_healthy(secured_flow.file("MTLS"))


def test_a_name_that_the_certificate_does_not_have(secured_flow: SecuredFlow) -> None:
    code, rows = look(secured_flow.file("ELSEWHERE"))

    assert code == 3
    key = f"{secured_flow.source}.ssl.endpoint.identification.algorithm"
    assert f"or set {key} to nothing" in problem(rows)["next_step"]
    assert_healthy(secured_flow.file("ELSEWHERE", ssl_endpoint_identification_algorithm=""))


def test_an_authority_that_the_client_does_not_know(
    secured: Secured, secured_flow: SecuredFlow
) -> None:
    stranger = secured.certificates.path("stranger.p12")

    code, rows = look(secured_flow.file("TLS", ssl_truststore_location=stranger))

    assert code == 3
    assert "put the certificate of the CA" in problem(rows)["next_step"]
    assert f"{secured_flow.source}.ssl.truststore.location" in problem(rows)["next_step"]
    assert_healthy(secured_flow.file("TLS"))


def test_logins(secured: Secured, secured_flow: SecuredFlow) -> None:
    wrong = secured.jaas("SCRAM", password="wrong")  # noqa: S106 - that is the fault

    code, rows = look(secured_flow.file("SCRAM", sasl_jaas_config=wrong))

    assert code == 3
    assert "check" in only([row for row in rows if row["verdict"] == "problem"])["next_step"]
    code, rows = look(secured_flow.file("SCRAM", security_protocol="SASL_PLAINTEXT"))
    assert code == 3
    assert ".security.protocol=SASL_SSL" in str([row["next_step"] for row in rows])
    assert_healthy(secured_flow.file("SCRAM"))


def test_a_quota_that_holds_the_user_back(secured: Secured, secured_flow: SecuredFlow) -> None:
    file = secured_flow.file("SCRAM")
    set_quota(secured.broker, {"user": USER}, "consumer_byte_rate", 1000.0)
    set_quota(secured.broker, {"user": "somebody-else"}, "consumer_byte_rate", 1.0)
    try:
        code, rows = await_fault(file)
    finally:
        set_quota(secured.broker, {"user": USER}, "consumer_byte_rate", None)

    line = (
        f"kafka-configs --bootstrap-server {secured.servers('SCRAM')} --alter --entity-type users "
        f"--entity-name '{USER}' --delete-config consumer_byte_rate"
    )
    assert code == 0
    assert only(rows)["commands"] == [line]
    assert "consumer_byte_rate=1000 (user mirror)" in only(rows)["found"]
    assert_healthy(file)
    set_quota(secured.broker, {"user": "somebody-else"}, "consumer_byte_rate", None)


@pytest.fixture
def strict_file(strict: Strict, tmp_path: Path, topic_name: str) -> Path:
    """A flow between two clusters that allow what an ACL says, with all that it needs."""
    create_topic(strict[1].broker.bootstrap, f"A.{topic_name}", 1)
    return strict_mirror(strict, tmp_path, topic_name)


@pytest.mark.parametrize(
    ("side", "operation", "remote"), [(0, "Read", ""), (1, "Write", "A."), (1, "Read", "A.")]
)
def test_a_missing_permission_is_mended_by_the_line_that_is_printed(
    strict: Strict,
    strict_file: Path,
    topic_name: str,
    side: int,
    operation: str,
    remote: str,
) -> None:
    assert_healthy(strict_file)
    revoke(strict[side].broker, line_for(operation, "topic", f"{remote}{topic_name}"))

    code, rows = await_fault(strict_file)

    assert code == 5
    commands = [command for row in rows for command in row["commands"]]
    assert f"--operation {operation} --topic '{remote}{topic_name}'" in str(commands)
    plan = run("plan", strict_file)
    assert plan.exit_code == 5
    assert f"{remote}{topic_name}" in plan.stderr
    assert "kafka-acls --bootstrap-server" in plan.stderr
    script = run("doctor", strict_file, "--fix-commands").stdout.splitlines()
    grant_printed(strict, script)
    assert_healthy(strict_file)


@pytest.mark.parametrize("operation", ["Write", "Describe"])
def test_a_denial_is_mended_by_its_removal_and_not_by_an_allow(
    strict: Strict, strict_file: Path, topic_name: str, operation: str
) -> None:
    target = strict[1].broker
    denied = line_for(operation, "topic", f"A.{topic_name}").replace("--allow-", "--deny-")
    grant(target, denied)
    grant(target, line_for("Describe", "cluster", "kafka-cluster"))

    code, rows = await_fault(strict_file)

    assert code == 5
    (line,) = {command for row in rows for command in row["commands"]}
    assert "--remove --force --deny-principal" in line
    assert f"--operation {operation} --topic 'A.{topic_name}'" in line
    plan = run("plan", strict_file)
    assert line in plan.stderr.replace("User:YOURS", f"User:{USER}")
    revoke(target, line)
    assert_healthy(strict_file)


def test_a_remote_topic_that_the_user_may_not_create(
    strict: Strict, tmp_path: Path, topic_name: str
) -> None:
    file = strict_mirror(strict, tmp_path, topic_name)
    assert_healthy(file)
    revoke(strict[1].broker, line_for("Create", "topic", f"A.{topic_name}"))

    code, rows = await_fault(file)

    assert code == 5
    assert f"--topic 'A.{topic_name}'" in str([row["commands"] for row in rows])
    grant_printed(strict, run("doctor", file, "--fix-commands").stdout.splitlines())
    assert_healthy(file)


def strict_mirror(strict: Strict, folder: Path, topic: str) -> Path:
    """The file of a flow with one topic between two clusters that allow what an ACL says."""
    create_topic(strict[0].broker.bootstrap, topic, 1)
    both = (strict[0].broker, strict[1].broker)
    sides = {alias: side.client("SCRAM") for alias, side in zip("AB", strict, strict=True)}
    file = write_config(folder, both, topic, sides, Flow("A", "B"))
    grant_needed(strict, load_config(str(file)))
    return file
