"""Every way to connect to a broker: what connects, and how a connection that fails is explained."""

import pytest

from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.kafka.internal_topic import InternalTopic
from replication.model import NewTopic
from tests.support.secured import LISTENERS, OAUTH, USER_PASSWORD, Secured
from tests.support.tokens import CLIENT_SECRET
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

WITHIN_SECONDS = 15.0  # of a loaded machine; the client's own timeout is 30 s


@pytest.mark.parametrize(
    "listener", [name for name in LISTENERS if name not in ("EXPIRED", "SOON", "ELSEWHERE")]
)
@pytest.mark.guarantee
def test_every_client_connects(secured: Secured, listener: str, topic_name: str) -> None:
    properties = secured.client(listener)
    with Cluster("S", properties) as cluster:
        cluster.create_topics([NewTopic(topic_name, 1, 1)])
        topic = InternalTopic(
            cluster, topic_name, producer=properties, consumer=properties, replication_factor=1
        )
        topic.write([(b"k", b"v"), (b"k2", b"")])

        assert topic_name in cluster.topic_names()
        assert [(record.key, record.value) for record in topic.records()] == [
            (b"k", b"v"),
            (b"k2", b""),
        ]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM"])
def test_every_kind_of_store_is_read(secured: Secured, kind: str) -> None:
    properties = {**secured.client("MTLS"), **secured.truststore(kind), **secured.keystore(kind)}
    if kind == "PEM":
        del properties["ssl.truststore.password"], properties["ssl.keystore.password"]

    with Cluster("S", properties) as cluster:
        assert cluster.cluster_id() == secured.broker.cluster_id


JAAS = "sasl.jaas.config"
KRB_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
WRONG = {
    "an expired certificate": ("EXPIRED", {}, r"NotAfter.*renew that of the brokers of cluster S"),
    "another host's certificate": (
        "ELSEWHERE",
        {},
        r"No subject alternative.*write a name .*S\.bootstrap\.servers",
    ),
    "an authority that is not trusted": (
        "TLS",
        {"ssl.truststore.location": "stranger.p12"},
        r"certification path.*S\.ssl\.truststore\.location",
    ),
    "no client certificate": (
        "MTLS",
        {"ssl.keystore.location": None, "ssl.keystore.password": None},
        r"client certificate .*S\.ssl\.keystore\.location",
    ),
    "a wrong password of the truststore": (
        "TLS",
        {"ssl.truststore.password": "hidden-word"},
        r"password was incorrect.*check S\.ssl\.truststore\.location.*S\.ssl\.truststore\.password",
    ),
    "a truststore that is not there": (
        "TLS",
        {"ssl.truststore.location": "missing.p12"},
        r"missing\.p12.*check S\.ssl\.truststore\.location",
    ),
    "a wrong password": (
        "SCRAM",
        {JAAS: ("password", "hidden-word")},
        r"sasl\.mechanism=SCRAM-SHA-512.*invalid credentials.*check S\.sasl\.mechanism",
    ),
    "a wrong password of PLAIN": (
        "PLAIN",
        {JAAS: ("password", "hidden-word")},
        r"sasl\.mechanism=PLAIN.*[Ii]nvalid username or password.*check S\.sasl\.mechanism",
    ),
    "another mechanism": (
        "SCRAM",
        {"sasl.mechanism": "SCRAM-SHA-256"},
        r"enabled mechanisms are \[SCRAM-SHA-512\].*set S\.sasl\.mechanism",
    ),
    "a client that the token endpoint does not know": (
        "TOKENS",
        {JAAS: f'{OAUTH}LoginModule required clientId="nobody" clientSecret="hidden-word";'},
        r"401.*check S\.sasl\.oauthbearer\.token\.endpoint\.url and .*S\.sasl\.jaas\.config",
    ),
    "a principal without a key": (
        "KRB",
        {JAAS: f'{KRB_MODULE} keyTab="/missing" principal="nobody@EXAMPLE.COM";'},
        r"sasl\.mechanism=GSSAPI.*check keyTab and principal in S\.sasl\.jaas\.config",
    ),
    "another service name": (
        "KRB",
        {"sasl.kerberos.service.name": "kafak"},
        r"Server not found in Kerberos.*check S\.sasl\.kerberos\.service\.name",
    ),
    "a login module that is not there": (
        "PLAIN",
        {JAAS: 'com.example.Missing required password="hidden-word";'},
        r"com\.example\.Missing.*CLIENT_JARS",
    ),
    "a plaintext client on a TLS port": (
        "TLS",
        {"security.protocol": "PLAINTEXT"},
        r"speaks SSL and not PLAINTEXT; set S\.security\.protocol=SSL",
    ),
    "a plaintext client on a port with TLS and SASL": (
        "SCRAM",
        {"security.protocol": "PLAINTEXT"},
        (
            r"speaks SASL_SSL with SCRAM-SHA-512 and not PLAINTEXT; "
            r"set S\.security\.protocol=SASL_SSL"
        ),
    ),
    "SASL without TLS on a TLS port": (
        "SCRAM",
        {"security.protocol": "SASL_PLAINTEXT"},
        r"speaks SASL_SSL .*and not SASL_PLAINTEXT",
    ),
    "a TLS client on a plaintext port": (
        "PLAINTEXT",
        {"security.protocol": "SSL"},
        r"speaks PLAINTEXT and not SSL; set S\.security\.protocol=PLAINTEXT",
    ),
    "TLS without SASL on a port with SASL": (
        "SCRAM",
        {"security.protocol": "SSL"},
        r"speaks SASL_SSL with SCRAM-SHA-512 and not SSL",
    ),
    "no security on a port with Kerberos": (
        "KRB",
        {"security.protocol": "PLAINTEXT"},
        r"speaks SASL_PLAINTEXT with GSSAPI and not PLAINTEXT",
    ),
}


@pytest.mark.parametrize(("listener", "changes", "text"), WRONG.values(), ids=WRONG)
def test_a_connection_that_fails_is_explained_in_one_line_within_seconds(
    secured: Secured, listener: str, changes: dict[str, object], text: str
) -> None:
    properties = secured.client(listener)
    for key, value in changes.items():
        match value:
            case None:
                del properties[key]
            case ("password", str(word)):
                properties[key] = secured.jaas(listener, word)
            case str() if value.endswith(".p12"):
                properties[key] = secured.certificates.path(value)
            case _:
                properties[key] = str(value)

    with (
        in_time(WITHIN_SECONDS / 2, "the failure"),
        pytest.raises(CallError, match=text) as failure,
        Cluster("S", properties) as cluster,
    ):
        cluster.topic_names()

    message = str(failure.value)
    assert not failure.value.is_temporary
    assert message.startswith(f"cluster S (bootstrap.servers={secured.servers(listener)}, security")
    assert "\n" not in message
    for secret in ("hidden-word", USER_PASSWORD, CLIENT_SECRET, secured.certificates.password):
        assert secret not in message
