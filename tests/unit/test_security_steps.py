"""What an operator reads about a refused connection or a missing ACL: the key of the file."""

import pytest

from replication.kafka.api import (
    COMMIT,
    CREATE_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TOPIC,
    JOIN_GROUP,
    LIST_OFFSETS,
    READ_PARTITIONS,
    READ_SETTINGS,
    READ_TOPIC,
    WRITE_TOPIC,
    Call,
    ClientFailure,
)
from replication.kafka.diagnosis import call_error
from replication.model import TopicPartition

TLS = {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.truststore.location": "/t.p12"}
KERBEROS = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL"}
REFUSED = "Topic authorization failed."


@pytest.mark.parametrize(
    ("properties", "code", "reason", "step"),
    [
        (TLS, "_SSL", "SSL handshake failed: NotAfter: Sat", "renew that of the brokers of B"),
        (TLS, "_SSL", "No name matching b found", "a name that is in the broker's certificate"),
        (TLS, "_SSL", "PKIX path building failed", "into B.ssl.truststore.location"),
        (TLS, "_SSL", "Received fatal alert: bad_certificate", "set B.ssl.keystore.location"),
        (TLS, "_SSL", "Received fatal alert: protocol_version", "B.ssl.enabled.protocols"),
        (TLS, "_SSL", "something new", "check B.security.protocol, the B.ssl.* files"),
        (
            TLS,
            "_INVALID_ARG",
            "Failed to load SSL keystore /t.p12 of type PKCS12",
            "check B.ssl.truststore.location, B.ssl.truststore.type and B.ssl.truststore.password",
        ),
        (KERBEROS, "_AUTHENTICATION", "Server not found in Kerberos database", "B.sasl.kerberos"),
        (KERBEROS, "_INVALID_ARG", "Cannot locate KDC", "JDK_JAVA_OPTIONS=-Djava.security.krb5"),
        (KERBEROS, "_INVALID_ARG", "Client not found in Kerberos database", "keyTab and principal"),
        (KERBEROS, "_INVALID_ARG", "No LoginModule found for x.Y", "jar with that class"),
        (
            KERBEROS,
            "_INVALID_ARG",
            "No LoginModule found for software.amazon.msk.auth.iam.IAMLoginModule",
            "--setup msk fetches aws-msk-iam-auth-*-all.jar",
        ),
        (
            KERBEROS,
            "_INVALID_ARG",
            (
                "Invalid value software.amazon.msk.auth.iam.IAMClientCallbackHandler for "
                "configuration sasl.client.callback.handler.class: Class could not be found."
            ),
            "put its path into the environment variable CLIENT_JARS",
        ),
        (KERBEROS, "_AUTHENTICATION", "Authentication failed", "check B.sasl.mechanism and"),
    ],
)
def test_a_refused_connection_names_the_property_of_the_file(
    properties: dict[str, str], code: str, reason: str, step: str
) -> None:
    text = str(call_error("B", properties, Call("listing topics"), ClientFailure(code, reason)))

    assert step.replace("of B", "of cluster B") in text
    assert "security.protocol=" in text
    if properties is KERBEROS:
        assert "sasl.mechanism=GSSAPI" in text


@pytest.mark.parametrize(
    ("call", "code", "line"),
    [
        (CREATE_TOPIC.of("A.orders"), "TOPIC", "--operation Create --topic 'A.orders'"),
        (CREATE_TOPIC.of("A.b", "A.a"), "TOPIC", "--operation Create --topic 'A.a'"),
        (CREATE_TOPIC.of("a, b"), "TOPIC", "--operation Create --topic 'a, b'"),
        (LIST_OFFSETS.of(TopicPartition("t-1", 12)), "TOPIC", "Describe --topic 't-1'"),
        (READ_SETTINGS.of("t-1"), "TOPIC", "--operation DescribeConfigs --topic 't-1'"),
        (READ_PARTITIONS.of(TopicPartition("t", 0)), "TOPIC", "--operation Read --topic 't'"),
        (READ_TOPIC.of("t-1"), "TOPIC", "--operation Read --topic 't-1'"),
        (DESCRIBE_TOPIC.of("t-1"), "TOPIC", "--operation Describe --topic 't-1'"),
        (DESCRIBE_PRODUCERS.of(TopicPartition("t", 0)), "TOPIC", "Read --topic 't'"),
        (DESCRIBE_GROUP.of("g-1"), "GROUP", "--operation Describe --group 'g-1'"),
        (WRITE_TOPIC.of("heartbeats"), "TOPIC", "--operation Write --topic 'heartbeats'"),
        (COMMIT.of("g for t and u"), "GROUP", "--operation Read --group 'g for t and u'"),
        (JOIN_GROUP.of("g"), "GROUP", "--operation Read --group 'g'"),
        (
            READ_PARTITIONS.of(TopicPartition("t", 0)),
            "GROUP",
            "--operation Describe --group replication-reader",
        ),
    ],
)
def test_a_missing_acl_is_named_with_the_command_that_adds_it(
    call: Call, code: str, line: str
) -> None:
    error = call_error("B", TLS, call, ClientFailure(f"{code}_AUTHORIZATION_FAILED", REFUSED))

    assert line in str(error)
    assert error.is_denied
    assert not error.is_temporary


@pytest.mark.parametrize(
    "text",
    ["reading the ACLs of topics", "reading topic settings", "describing the producers of 3 parts"],
)
def test_where_no_resource_is_known_no_line_is_made_up(text: str) -> None:
    failure = ClientFailure("CLUSTER_AUTHORIZATION_FAILED", REFUSED)

    error = str(call_error("B", TLS, Call(text), failure))

    assert "python -m replication acls FILE prints the ACLs that are needed on cluster B" in error
    assert "--add" not in error


def test_a_call_names_what_it_is_about() -> None:
    partitions = [TopicPartition("t", number) for number in range(7)]

    assert str(READ_PARTITIONS.of(*partitions)) == "reading t-0, t-1, t-2, t-3, t-4 and 2 more"
    assert str(READ_PARTITIONS.of()) == "reading"
