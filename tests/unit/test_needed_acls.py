"""The ACLs that a configuration needs: names, prefixes, and the three ways to write them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from replication.cli.main import main
from replication.config.parse import parse
from replication.topics.acls import Resource, needed_acls

TOPIC_READ = ("DESCRIBE_CONFIGS", "READ")
FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
B.security.protocol = SASL_SSL
B.sasl.mechanism = SCRAM-SHA-512
B.sasl.jaas.config = x.ScramLoginModule required username="mirror" password="hidden-word";
A->B.enabled = true
A->B.topics = pay-.*
"""


def needed(**settings: str) -> dict[str, dict[Resource, tuple[str, ...]]]:
    """What a flow A->B needs; ``_`` in a key of *settings* stands for a dot."""
    keys = {f"A->B.{key.replace('_', '.')}": value for key, value in settings.items()}
    servers = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    switches = {"A->B.enabled": "true", "emit.heartbeats.enabled": "false"}
    return needed_acls(parse("f", {**servers, **switches, **keys}, default_state_dir="/s"))


@pytest.mark.parametrize(
    ("topics", "resources"),
    [
        pytest.param("orders", [Resource("topic", "orders")], id="a name"),
        pytest.param("a.b", [Resource("topic", "a.b")], id="a name with a dot"),
        pytest.param("pay-.*", [Resource("topic", "pay-", "PREFIXED")], id="a prefix"),
        pytest.param(r"a\.b.+", [Resource("topic", "a.b", "PREFIXED")], id="an escaped dot"),
        pytest.param("pays?", [Resource("topic", "pay", "PREFIXED")], id="an optional character"),
        pytest.param("t[0-9]", [Resource("topic", "t", "PREFIXED")], id="a class"),
        pytest.param("a, .*", [Resource("topic", "*")], id="everything covers the rest"),
        pytest.param(
            r"a|b-.*|c\.d",
            [
                Resource("topic", "a"),
                Resource("topic", "b-", "PREFIXED"),
                Resource("topic", "c.d", "PREFIXED"),
            ],
            id="alternatives",
        ),
        pytest.param("a|.*", [Resource("topic", "*")], id="an alternative for everything"),
        pytest.param("(a|b)c", [Resource("topic", "*")], id="alternatives in parentheses"),
    ],
)
def test_the_names_of_a_list_become_names_and_prefixes(
    topics: str, resources: list[Resource]
) -> None:
    grants = needed(topics=topics, heartbeats_replication_enabled="false")["A"]

    of_topics = {
        resource: grants[resource]
        for resource in grants
        if resource.kind == "topic" and "mm2" not in resource.name
    }
    assert of_topics == dict.fromkeys(resources, TOPIC_READ)


def test_a_feature_that_is_off_needs_nothing() -> None:
    grants = needed(
        topics="orders",
        heartbeats_replication_enabled="false",
        sync_topic_acls_enabled="false",
        sync_topic_configs_enabled="false",
        emit_checkpoints_enabled="false",
        **{"emit_offset-syncs_enabled": "false"},
    )

    assert grants == {
        "A": {Resource("topic", "orders"): TOPIC_READ},
        "B": {
            Resource("group", "__replication-lease.", "PREFIXED"): ("READ",),
            Resource("topic", "A.orders"): (
                "ALTER", "CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE",
            ),
            Resource("topic", "mm2-status.A.internal"): (
                "CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE",
            ),
        },
    }  # fmt: skip


def test_dead_letters_in_a_topic_are_written_and_looked_for() -> None:
    grants = needed(replication_dead_letters="topic", replication_dead_letters_topic="dead")

    assert grants["B"][Resource("topic", "dead")] == ("CREATE", "READ", "WRITE")
    assert Resource("topic", "dead") not in needed(replication_dead_letters="table")["B"]


def test_the_topic_with_the_positions_of_mirror_maker_2_is_read() -> None:
    grants = needed(replication_takeover_topic="mm2-offsets.A.internal")

    assert grants["B"][Resource("topic", "mm2-offsets.A.internal")] == ("READ",)
    assert Resource("topic", "mm2-offsets.A.internal") not in needed()["B"]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (
            "kafka-acls",
            (
                "kafka-acls --bootstrap-server b:1 --add --allow-principal 'User:mirror' "
                "--operation Read --group '__replication-lease.' --resource-pattern-type prefixed"
            ),
        ),
        ("strimzi", '- resource: {type: topic, name: "A.pay-", patternType: prefix}'),
        ("terraform", 'resource "kafka_acl" "b_group___replication_lease__read_prefixed" {'),
    ],
)
def test_every_format_names_the_user_and_no_password(tmp_path: Path, form: str, line: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)

    result = CliRunner().invoke(main, ["acls", str(file), "--format", form])

    assert result.exit_code == 0, result.output
    assert line in result.output
    assert "pass --principal A=User:NAME" in result.output
    assert "hidden-word" not in result.output
