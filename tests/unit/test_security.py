"""Java's client properties in librdkafka's words, JAAS as Kafka reads it, secrets kept."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.clients.jaas import JaasError, parse_jaas
from replication.config.clients.java_keys import JAVA_KEYS
from replication.config.clients.librdkafka import (
    MASK,
    ClientProperties,
    is_secret,
    librdkafka_properties,
    mask,
)
from replication.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_CONFIG = """a.ScramLoginModule required username='u' password="p;=' ";"""
TWO_MODULES = f"x.Y optional; kafkashaded.{PLAIN} required username=u password=p;"
OAUTH_CONFIG = f"{OAUTH} required clientId='i' clientSecret='s' scope='w' extension_a='b';"
KERBEROS_CONFIG = "com.sun.security.auth.module.Krb5LoginModule required keyTab=k principal='me@R';"
SASL = {"security.protocol": "SASL_SSL"}
URL = {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token"}


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        pytest.param(
            {"bootstrap.servers": "a:1", "isolation.level": "read_committed"},
            {"bootstrap.servers": "a:1", "isolation.level": "read_committed"},
            id="same names",
        ),
        pytest.param(
            {"fetch.max.wait.ms": "5", "max.request.size": "9", "send.buffer.bytes": "1"},
            {"fetch.wait.max.ms": "5", "message.max.bytes": "9", "socket.send.buffer.bytes": "1"},
            id="renamed",
        ),
        pytest.param({"buffer.memory": "65536"}, {"queue.buffering.max.kbytes": "64"}, id="kbytes"),
        pytest.param({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}, id="reset"),
        pytest.param(
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
            id="no host name check",
        ),
        pytest.param(
            {"ssl.protocol": "TLSv1.3", "max.block.ms": "1", "partitioner.class": "x"},
            {},
            id="Java only",
        ),
        pytest.param({"queue.buffering.max.ms": "5"}, {"queue.buffering.max.ms": "5"}, id="native"),
        pytest.param(
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"},
            {"ssl.ca.location": "ca.pem"},
            id="PEM truststore",
        ),
        pytest.param(
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": "KEY",
                "ssl.keystore.certificate.chain": "CERT",
                "ssl.key.password": "pw",
            },
            {
                "ssl.ca.pem": "CA",
                "ssl.key.pem": "KEY",
                "ssl.certificate.pem": "CERT",
                "ssl.key.password": "pw",
            },
            id="inline PEM",
        ),
        pytest.param(
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem"},
            {"ssl.key.location": "me.pem", "ssl.certificate.location": "me.pem"},
            id="PEM keystore",
        ),
        pytest.param(
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "pw"},
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "pw"},
            id="PKCS12 keystore",
        ),
        pytest.param(
            {
                **SASL,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": SCRAM_CONFIG,
            },
            {
                **SASL,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "u",
                "sasl.password": "p;=' ",
            },
            id="scram",
        ),
        pytest.param(
            {
                **SASL,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": TWO_MODULES,
            },
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
            id="second module, shaded",
        ),
        pytest.param(
            {
                **SASL,
                **URL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": OAUTH_CONFIG,
                "sasl.login.callback.handler.class": "x.Handler",
            },
            {
                **SASL,
                **URL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "i",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "w",
                "sasl.oauthbearer.extensions": "a=b",
            },
            id="oauth",
        ),
        pytest.param(
            {
                **SASL,
                **URL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.credentials.client.id": "i",
                "sasl.oauthbearer.client.credentials.client.secret": "s",
            },
            {
                **SASL,
                **URL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "i",
                "sasl.oauthbearer.client.secret": "s",
            },
            id="oauth without JAAS, 4.1",
        ),
        pytest.param(
            {
                **SASL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{OAUTH} required unsecuredLoginStringClaim_sub='me';",
            },
            {
                **SASL,
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=me",
            },
            id="oauth unsecured",
        ),
        pytest.param(
            {
                **SASL,
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": KERBEROS_CONFIG,
            },
            {
                **SASL,
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.keytab": "k",
                "sasl.kerberos.principal": "me@R",
            },
            id="kerberos",
        ),
    ],
)
def test_librdkafka_properties(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka_properties(java) == expected


@pytest.mark.parametrize(
    ("java", "beginning"),
    [
        pytest.param(
            {"ssl.truststore.location": "t.jks"},
            "ssl.truststore.location: 't.jks' is read as JKS, which confluent-kafka cannot; export",
            id="JKS truststore",
        ),
        pytest.param(
            {"ssl.truststore.location": "t.p12", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.location: 't.p12' is read as PKCS12, which",
            id="PKCS12 truststore",
        ),
        pytest.param(
            {"ssl.keystore.location": "k.jks"},
            "ssl.keystore.location: 'k.jks' is read as JKS, which confluent-kafka cannot; convert",
            id="JKS keystore",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "x required;"},
            "sasl.mechanism: AWS_MSK_IAM exists in Java only; use",
            id="MSK",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required user=u;"},
            "sasl.jaas.config: PlainLoginModule lacks username and password; add it",
            id="no password",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.Own required;"},
            "sasl.jaas.config: login module 'a.Own' has no counterpart",
            id="own module",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} required;"},
            "sasl.oauthbearer.token.endpoint.url: missing; give",
            id="no token endpoint",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(java: dict[str, str], beginning: str) -> None:
    with pytest.raises(ConfigError) as caught:
        librdkafka_properties(java)

    (problem,) = caught.value.problems
    assert problem[: len(beginning)] == beginning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("M required;", [("M", {})], id="no options"),
        pytest.param("M REQUIRED a=b c-d=e_f;", [("M", {"a": "b", "c-d": "e_f"})], id="words"),
        pytest.param('M required a=\'x y\' "b"="z";', [("M", {"a": "x y", "b": "z"})], id="quotes"),
        pytest.param(r'M required a="\"\\\n\101\x";', [("M", {"a": '"\\\nAx'})], id="escapes"),
        pytest.param(
            "// c\nM /* x=y; */ required / rest of line\n a=b;", [("M", {"a": "b"})], id="comments"
        ),
        pytest.param("M required a='//x /*y*/';", [("M", {"a": "//x /*y*/"})], id="no comments"),
        pytest.param(
            "M required a=b; N optional c=d;", [("M", {"a": "b"}), ("N", {"c": "d"})], id="two"
        ),
        pytest.param("M required a=b a=c;", [("M", {"a": "c"})], id="the last counts"),
        pytest.param('M required a="";', [("M", {"a": ""})], id="empty"),
    ],
)
def test_jaas(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(module.name, module.options) for module in parse_jaas(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "it names no login module", id="empty"),
        pytest.param("hunter2", "after a class name write 'required'", id="one word"),
        pytest.param("M maybe;", "after a class name write 'required'", id="flag"),
        pytest.param("M required a=b", "an entry must end with ';'", id="open"),
        pytest.param("M required a=12;", 'option 1 needs double quotes: key="value"', id="number"),
        pytest.param(
            "M required a=b c;", "after option 1 expected key=value or ';'", id="no value"
        ),
        pytest.param("M required -a=b;", "after option 0 expected key=value or ';'", id="dash"),
        pytest.param("; M", "expected a login module's class name, found sign", id="sign"),
    ],
)
def test_jaas_that_cannot_be_read(text: str, expected: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)

    assert str(caught.value) == expected


@given(st.text(st.sampled_from("ab1 \"'\\/*;=#é\t")))
def test_every_password_survives_quoting(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')

    (module,) = parse_jaas(f'M required password="{quoted}";')

    assert module.options == {"password": password}


def test_the_secrets_among_java_s_keys() -> None:
    assert sorted(key for key in JAVA_KEYS if is_secret(key)) == [
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.pem",
        "A.consumer.ssl.keystore.key",
        "api.key",
        "my.Token",
        "s3.secret",
    ],
)
def test_other_secrets(key: str) -> None:
    assert is_secret(key)


def test_client_properties_show_no_secret_and_keep_it() -> None:
    properties = ClientProperties({"client.id": "a", "ssl.key.password": "hunter2"})

    assert repr(properties) == f"{properties}" == str({"client.id": "a", "ssl.key.password": MASK})
    assert mask(properties) == {"client.id": "a", "ssl.key.password": MASK}
    assert pickle.loads(pickle.dumps(properties)) == properties  # noqa: S301  # our own bytes
