"""Java's client properties, converted for librdkafka."""

import pytest

from replication.config.client_keys import librdkafka_properties
from replication.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_CONFIG = """a.ScramLoginModule required username='u' password="p;=' ";"""
TWO_MODULES = f"x.Y optional; kafkashaded.{PLAIN} required username=u password=p;"
OAUTH_CONFIG = f"{OAUTH} required clientId='i' clientSecret='s' scope='w' extension_a='b';"
KERBEROS_CONFIG = "com.sun.security.auth.module.Krb5LoginModule required keyTab=k principal='me@R';"
TLS = {"security.protocol": "SSL"}
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
        pytest.param(
            {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"},
            {"socket.receive.buffer.bytes": "0", "socket.send.buffer.bytes": "0"},
            id="buffers of the kernel's size",
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
            {**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"},
            {**TLS, "ssl.ca.location": "ca.pem"},
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
            {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem"},
            {**TLS, "ssl.key.location": "me.pem", "ssl.certificate.location": "me.pem"},
            id="PEM keystore",
        ),
        pytest.param(
            {**TLS, "ssl.keystore.location": "me.p12", "ssl.keystore.password": "pw"},
            {**TLS, "ssl.keystore.location": "me.p12", "ssl.keystore.password": "pw"},
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
def test_java_properties_are_converted(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka_properties(java) == expected


@pytest.mark.parametrize(
    ("java", "beginning"),
    [
        pytest.param(
            {**TLS, "ssl.truststore.location": "t.jks"},
            "ssl.truststore.location: 't.jks' is a JKS file, which confluent-kafka cannot read; "
            "export",
            id="JKS truststore",
        ),
        pytest.param(
            {**TLS, "ssl.truststore.location": "t.p12", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.location: 't.p12' is a PKCS12 file, which",
            id="PKCS12 truststore",
        ),
        pytest.param(
            {**TLS, "ssl.keystore.location": "k.jks"},
            "ssl.keystore.location: 'k.jks' is a JKS file, which confluent-kafka cannot read; "
            "convert",
            id="JKS keystore",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "x required;"},
            "sasl.mechanism: AWS_MSK_IAM is available in Java only; use",
            id="MSK",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required user=u;"},
            "sasl.jaas.config: PlainLoginModule needs username and password",
            id="no password",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.Own required;"},
            "sasl.jaas.config: login module 'a.Own' has no equivalent",
            id="own module",
        ),
        pytest.param(
            {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} required;"},
            "sasl.oauthbearer.token.endpoint.url: missing; set",
            id="no token endpoint",
        ),
    ],
)
def test_a_value_without_an_equivalent_is_rejected_with_advice(
    java: dict[str, str], beginning: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        librdkafka_properties(java)

    (problem,) = caught.value.problems
    assert problem[: len(beginning)] == beginning
