"""A broker with a listener for each way to connect, and the client properties for each of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port
from tests.support.certificates import Certificates, make_certificates
from tests.support.kerberos import BROKER, CLIENT, Kerberos, running_kdc
from tests.support.tokens import (
    ALLOWED_URLS,
    CLIENT_ID,
    CLIENT_SECRET,
    Tokens,
    token_endpoint,
)
from tests.support.waiting import wait_until

USER: Final = "mirror"
USER_PASSWORD: Final = 'a "quoted"; p=ss w\\rd'  # noqa: S105 - of this broker only
"""Of the user in SCRAM and PLAIN; with what breaks a naive parser."""

SECURITY: Final = "org.apache.kafka.common.security"
OAUTH: Final = f"{SECURITY}.oauthbearer.OAuthBearer"
LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",  # the first one: of the tests themselves
    "TLS": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "SOON": "SSL",
    "ELSEWHERE": "SSL",
    "SCRAM": "SASL_SSL",
    "PLAIN": "SASL_SSL",
    "OAUTH": "SASL_SSL",
    "TOKENS": "SASL_SSL",
    "KRB": "SASL_PLAINTEXT",
}
MECHANISMS: Final = {
    "SCRAM": "SCRAM-SHA-512",
    "PLAIN": "PLAIN",
    "OAUTH": "OAUTHBEARER",
    "TOKENS": "OAUTHBEARER",
    "KRB": "GSSAPI",
}


def quoted(text: str) -> str:
    """*text* as a value in a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class Secured:
    """The running broker with everything that its clients need."""

    broker: Broker
    ports: Mapping[str, int]
    certificates: Certificates
    kerberos: Kerberos
    tokens: Tokens

    def servers(self, listener: str) -> str:
        """``bootstrap.servers`` of the listener *listener*."""
        return f"{HOST}:{self.ports[listener]}"

    def client(self, listener: str) -> dict[str, str]:
        """Client properties that connect to *listener*."""
        properties = {
            "bootstrap.servers": self.servers(listener),
            "security.protocol": LISTENERS[listener],
            "default.api.timeout.ms": "30000",
        }
        if LISTENERS[listener].endswith("SSL"):
            properties |= self.truststore("PKCS12")
        if listener == "MTLS":
            properties |= self.keystore("PKCS12")
        if listener in MECHANISMS:
            properties["sasl.mechanism"] = MECHANISMS[listener]
            properties["sasl.jaas.config"] = self.jaas(listener)
        if listener == "TOKENS":
            properties["sasl.oauthbearer.token.endpoint.url"] = self.tokens.url
            properties["sasl.login.callback.handler.class"] = f"{OAUTH}LoginCallbackHandler"
        if listener == "KRB":
            properties["sasl.kerberos.service.name"] = "kafka"
        return properties

    def truststore(self, kind: str) -> dict[str, str]:
        """The properties of a truststore: ``PKCS12``, ``JKS`` or ``PEM``."""
        ending = {"PKCS12": "p12", "JKS": "jks", "PEM": "pem"}[kind]
        properties = {
            "ssl.truststore.location": self.certificates.path(f"trust.{ending}"),
            "ssl.truststore.type": kind,
        }
        if kind != "PEM":
            properties["ssl.truststore.password"] = self.certificates.password
        return properties

    def keystore(self, kind: str) -> dict[str, str]:
        """The properties of the client's keystore; the key of the PEM file is encrypted."""
        ending = {"PKCS12": "p12", "JKS": "jks", "PEM": "pem"}[kind]
        properties = {
            "ssl.keystore.location": self.certificates.path(f"client.{ending}"),
            "ssl.keystore.type": kind,
            "ssl.key.password": self.certificates.password,
        }
        if kind != "PEM":
            properties["ssl.keystore.password"] = self.certificates.password
        return properties

    def jaas(self, listener: str, password: str = USER_PASSWORD) -> str:
        """``sasl.jaas.config`` of a client."""
        if listener == "KRB":
            return self.kerberos.jaas(CLIENT)
        if listener == "OAUTH":
            return f'{OAUTH}LoginModule required unsecuredLoginStringClaim_sub="{USER}";'
        if listener == "TOKENS":
            client = f'clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" scope="kafka"'
            return f"{OAUTH}LoginModule required {client};"
        name = "scram.ScramLoginModule" if listener == "SCRAM" else "plain.PlainLoginModule"
        return f'{SECURITY}.{name} required username="{USER}" password={quoted(password)};'


@dataclass(frozen=True, slots=True)
class Authorities:
    """Who vouches for brokers and clients."""

    certificates: Certificates
    kerberos: Kerberos
    tokens: Tokens


@contextmanager
def authorities(folder: Path) -> Iterator[Authorities]:
    """Certificates, a Kerberos server and a token endpoint, for the block."""
    certificates = make_certificates(folder / "certificates")
    with running_kdc(folder / "kdc") as kerberos, token_endpoint(folder / "tokens") as tokens:
        yield Authorities(certificates, kerberos, tokens)


@contextmanager
def secured_broker(
    folder: Path,
    settings: BrokerSettings,
    trusted: Authorities,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Secured]:
    """The broker, for the block; *properties* are its own on top of those of *settings*."""
    certificates, kerberos = trusted.certificates, trusted.kerberos
    ports = {name: free_port() for name in LISTENERS}
    controller = free_port()
    own = {
        **settings.properties,
        **_listeners(ports, controller),
        **_stores(certificates),
        **_logins(trusted),
        **(properties or {}),
    }
    options = (
        *settings.jvm_options,
        f"-Djava.security.krb5.conf={kerberos.krb5_conf}",
        f"-D{ALLOWED_URLS}={trusted.tokens.jwks.as_uri()}",
    )
    broker = Broker(
        "S",
        folder,
        replace(settings, properties=own, jvm_options=options),
        ports=iter([ports["PLAINTEXT"], controller]).__next__,
    )
    try:
        broker.start()
        _add_scram_user(broker)
        yield Secured(broker, ports, certificates, kerberos, trusted.tokens)
    finally:
        broker.stop()


def _listeners(ports: Mapping[str, int], controller: int) -> dict[str, str]:
    addresses = [f"{name}://{HOST}:{port}" for name, port in ports.items()]
    protocols = {**LISTENERS, "CONTROLLER": "PLAINTEXT"}
    return {
        "listeners": ",".join([*addresses, f"CONTROLLER://{HOST}:{controller}"]),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _stores(certificates: Certificates) -> dict[str, str]:
    stores = {"EXPIRED": "expired", "SOON": "soon", "ELSEWHERE": "elsewhere"}
    properties = {"listener.name.mtls.ssl.client.auth": "required"}
    for listener, protocol in LISTENERS.items():
        if protocol.endswith("SSL"):
            prefix = f"listener.name.{listener.lower()}"
            store = certificates.path(f"{stores.get(listener, 'broker')}.p12")
            properties |= {
                f"{prefix}.ssl.keystore.location": store,
                f"{prefix}.ssl.keystore.type": "PKCS12",
                f"{prefix}.ssl.keystore.password": certificates.password,
                f"{prefix}.ssl.key.password": certificates.password,
                f"{prefix}.ssl.truststore.location": certificates.path("trust.p12"),
                f"{prefix}.ssl.truststore.password": certificates.password,
            }
    return properties


def _logins(trusted: Authorities) -> dict[str, str]:
    password = quoted(USER_PASSWORD).replace("\\", "\\\\")  # a backslash of a .properties file
    modules = {
        "SCRAM": f"{SECURITY}.scram.ScramLoginModule required;",
        "PLAIN": f"{SECURITY}.plain.PlainLoginModule required user_{USER}={password};",
        "OAUTH": f'{OAUTH}LoginModule required unsecuredLoginStringClaim_sub="broker";',
        "TOKENS": f"{OAUTH}LoginModule required;",
        "KRB": trusted.kerberos.jaas(BROKER),
    }
    tokens = "listener.name.tokens.oauthbearer"
    properties = {
        "sasl.kerberos.service.name": "kafka",
        f"{tokens}.sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
        f"{tokens}.sasl.oauthbearer.jwks.endpoint.url": trusted.tokens.jwks.as_uri(),
    }
    for listener, module in modules.items():
        prefix, mechanism = f"listener.name.{listener.lower()}", MECHANISMS[listener]
        properties[f"{prefix}.sasl.enabled.mechanisms"] = mechanism
        properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
    return properties


def _add_scram_user(broker: Broker) -> None:
    """Adds the user; returns when the broker knows it, or a first login could be refused."""
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, USER_PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(60)

    def is_known() -> bool:
        with suppress(KafkaException):  # it is not found
            return bool(admin.describe_user_scram_credentials([USER])[USER].result(60))
        return False

    wait_until(is_known, 60)
