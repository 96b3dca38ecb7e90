"""Topic ACLs on two brokers with an authorizer: what is copied, removed and restored."""

import json
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.background import background_metadata
from replication.config.parse import parse
from replication.control.overrides import new_change
from replication.demo.brokers import Broker, BrokerSettings, two_clusters
from replication.demo.workload import create_topic
from replication.flows.context import FlowContext
from replication.flows.metadata import AclSync
from replication.kafka.acls import TopicAcls
from replication.model import TopicAcl
from replication.spark.session import jvm_of
from replication.state.tables import Tables
from replication.topics.acls import remote_acls
from tests.support.acls import (
    MYSELF,
    acl,
    acls_of,
    allow_descriptions,
    create,
    forbid_descriptions,
    remove,
)
from tests.support.commands import replication
from tests.support.flows import flow_config, flow_context, unique_flow
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.stored import stored

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """Two clusters with an authorizer, A and B, for the tests of this module."""
    settings = replace(broker_settings, properties={**broker_settings.properties, **AUTHORIZER})
    with two_clusters(tmp_path_factory.mktemp("guarded"), settings) as both:
        yield both


@contextmanager
def held(context: FlowContext) -> Iterator[None]:
    """An operation holds the flow during the block."""
    changes, flow = context.changes, context.config.flow
    changes.write(new_change(flow, "hold", ["dr-1"]))
    changes.read()
    yield
    changes.write(new_change(flow, "release", ["dr-1"]))
    changes.read()


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path.as_uri())


def actions(tables: Tables) -> list[tuple[str, str]]:
    """What the table says was done, oldest first."""
    rows = stored(tables, "topic_acls", order="at, operation")
    return [(row["action"], row["operation"]) for row in rows]


def event_kinds(tables: Tables) -> list[str]:
    return [row["kind"] for row in stored(tables, "events")]


def opened(
    spark: SparkSession, tables: Tables, clusters: Clusters, topics: str, **settings: str
) -> FlowContext:
    """A flow; ``_`` in a key of *settings* stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return flow_context(spark, tables, flow_config(*clusters, topics, keys))


def round_until(sync: AclSync, until: Until, condition: Iterable[TopicAcl], broker: Broker) -> None:
    """Does one round, and waits until *broker* shows exactly these ACLs of their topics."""
    sync.round()
    wanted = set(condition)
    name = next(iter(wanted)).topic.removeprefix("A.")
    until(lambda: acls_of(broker, name) == wanted, 10)


def test_access_to_a_remote_topic_follows_its_source_topic_without_writing(
    spark: SparkSession, guarded: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    source, target = guarded
    remote = f"A.{topic_name}"
    create(
        source,
        acl("ALLOW", "READ", topic_name),
        acl("ALLOW", "WRITE", topic_name, "User:writer"),
        acl("ALLOW", "ALL", topic_name, "User:admin"),
        acl("DENY", "WRITE", topic_name, "User:bob"),
        acl("ALLOW", "READ", f"{topic_name}*", "User:prefix"),
        acl("ALLOW", "READ", f"x-{topic_name}", "User:of another topic"),
    )
    sync = AclSync(opened(spark, tables, guarded, topic_name))

    copies = {
        acl("ALLOW", "READ", remote),
        acl("ALLOW", "READ", remote, "User:admin"),
        acl("DENY", "WRITE", remote, "User:bob"),
    }
    round_until(sync, until, copies, target)
    sync.round()

    assert acls_of(target, topic_name) == copies
    assert actions(tables) == [("create", "READ"), ("create", "READ"), ("create", "WRITE")]
    assert event_kinds(tables) == []


def test_the_copies_are_those_that_mirror_maker_2_makes(
    spark: SparkSession, guarded: Clusters, tmp_path: Path, until: Until
) -> None:
    source, target = guarded
    flow = unique_flow()
    operations = ("ALTER", "ALTER_CONFIGS", "CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS")
    topic = f"{flow.source}-orders"
    create(
        source,
        *(
            acl(permission, operation, topic)
            for operation in ("ALL", "READ", "WRITE", *operations)
            for permission in ("ALLOW", "DENY")
        ),
        acl("ALLOW", "ALL", f"{flow.source}-all"),
        acl("ALLOW", "READ", f"{flow.source}-prefix*"),
        acl("ALLOW", "READ", f"{flow.source}-secret"),
        acl("ALLOW", "READ", f"{flow.target}.{topic}"),
        acl("ALLOW", "READ", "heartbeats"),
        acl("ALLOW", "ALL", "*", MYSELF),
    )
    settings = {
        f"{flow}.topics": f"{flow.source}-.*, {flow.target}.*, [*]",
        f"{flow}.topics.exclude": ".*-secret",
        "sync.topic.acls.enabled": "true",
        "heartbeats.replication.enabled": "true",
    }
    config = parse(
        "test",
        {**mm2_properties(guarded, flow.source, flow.target), **settings},
        default_state_dir="/unused",
    ).flows[0]
    with TopicAcls(jvm_of(spark), "A", {"bootstrap.servers": source.bootstrap}) as acls:
        ours = remote_acls(config, acls.read())

    properties = mm2_properties(guarded, flow.source, flow.target)
    with mirror_maker_2(tmp_path, {**properties, **settings}) as mm2:

        def are_equal() -> bool:
            mm2.check()
            return acls_of(target, flow.source) == ours

        until(are_equal, 60)

    copied = {
        (acl.permission, acl.operation) for acl in ours if acl.topic == f"{flow.source}.{topic}"
    }
    assert copied == {
        *(("DENY", operation) for operation in ("ALL", "READ", "WRITE", *operations)),
        *(("ALLOW", operation) for operation in ("READ", *operations)),
    }
    assert {acl.topic for acl in ours} == {
        f"{flow.source}.{name}" for name in (topic, f"{flow.source}-all", "heartbeats", "*")
    }


def test_only_what_the_flow_created_is_removed_after_it_is_gone_on_the_source(
    spark: SparkSession, guarded: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    source, target = guarded
    mine, theirs = (
        [acl("ALLOW", operation, topic) for topic in (topic_name, f"A.{topic_name}")]
        for operation in ("READ", "DESCRIBE")
    )
    create(source, mine[0], theirs[0])
    create(target, theirs[1])
    kept = opened(spark, tables, guarded, topic_name)
    round_until(AclSync(kept), until, {mine[1], theirs[1]}, target)

    remove(source, mine[0], theirs[0])
    until(lambda: acls_of(source, topic_name) == set(), 10)
    AclSync(kept).round()
    assert acls_of(target, topic_name) == {mine[1], theirs[1]}

    settings = {"replication_acls_removal_enabled": "true"}
    removing = AclSync(opened(spark, tables, guarded, topic_name, **settings))
    round_until(removing, until, {theirs[1]}, target)
    assert actions(tables) == [("create", "READ"), ("remove", "READ")]


def test_an_acl_that_somebody_removed_on_the_target_comes_back_with_an_event(
    spark: SparkSession, guarded: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    source, target = guarded
    copy = acl("ALLOW", "READ", f"A.{topic_name}")
    create(source, acl("ALLOW", "READ", topic_name))
    context = opened(spark, tables, guarded, topic_name)
    round_until(AclSync(context), until, {copy}, target)

    remove(target, copy)
    until(lambda: acls_of(target, topic_name) == set(), 10)
    round_until(AclSync(context), until, {copy}, target)  # as after a restart

    assert event_kinds(tables) == ["acl-restored"]
    (text,) = [row["text"] for row in stored(tables, "events")]
    assert f"ALLOW READ A.{topic_name} to User:alice" in text


def test_a_missing_permission_is_one_line_of_the_log(
    spark: SparkSession,
    guarded: Clusters,
    tables: Tables,
    topic_name: str,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = guarded
    create(source, acl("ALLOW", "READ", topic_name))
    sync = AclSync(opened(spark, tables, guarded, topic_name))
    forbid_descriptions(target)
    try:
        until(lambda: denies_a_look(sync, caplog), 10)
        sync.round()
    finally:
        allow_descriptions(target)
    until(lambda: copies_again(sync, target, f"A.{topic_name}"), 10)

    lines = [
        record.getMessage() for record in caplog.records if "acls_not_copied" in record.getMessage()
    ]
    assert len(lines) == 1
    assert "grant the mirror's user DESCRIBE on the cluster" in lines[0]


def copies_again(sync: AclSync, target: Broker, remote: str) -> bool:
    sync.round()
    return acls_of(target, remote) == {acl("ALLOW", "READ", remote)}


def denies_a_look(sync: AclSync, caplog: pytest.LogCaptureFixture) -> bool:
    sync.round()
    return "event=acls_not_copied" in caplog.text


def test_a_cluster_without_an_authorizer_is_named_once(
    spark: SparkSession,
    guarded: Clusters,
    clusters: Clusters,
    tables: Tables,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sync = AclSync(opened(spark, tables, (guarded[0], clusters[1]), "any"))

    with caplog.at_level(logging.INFO):
        sync.round()
        sync.round()

    lines = [
        record.getMessage() for record in caplog.records if "acls_not_copied" in record.getMessage()
    ]
    assert len(lines) == 1
    assert "cluster B has no authorizer" in lines[0]


def test_the_query_copies_an_acl_within_its_interval_and_plan_shows_it_before(
    spark: SparkSession,
    guarded: Clusters,
    tables: Tables,
    topic_name: str,
    tmp_path: Path,
    until: Until,
) -> None:
    source, target = guarded
    create_topic(source.bootstrap, topic_name, 1)
    config = write_config(tmp_path, guarded, topic_name)
    settings = {"sync_topic_acls_interval_seconds": "1", "sync_topic_configs_enabled": "false"}
    context = opened(spark, tables, guarded, topic_name, **settings)
    with background_metadata(context, "mirror", threading.Event()):
        create(source, acl("ALLOW", "ALL", topic_name, MYSELF))
        copies = {acl("ALLOW", "READ", f"A.{topic_name}", MYSELF)}
        until(lambda: acls_of(target, topic_name) == copies, 60)
        with held(context):
            create(source, acl("ALLOW", "DESCRIBE", topic_name, "User:eve"))
            AclSync(context).round()
            assert acls_of(target, topic_name) == copies
        copies.add(acl("ALLOW", "DESCRIBE", f"A.{topic_name}", "User:eve"))
        until(lambda: acls_of(target, topic_name) == copies, 30)
        create(source, acl("DENY", "WRITE", topic_name, "User:bob"))
        copies.add(acl("DENY", "WRITE", f"A.{topic_name}", "User:bob"))
        until(lambda: acls_of(target, topic_name) == copies, 30)
    create(source, acl("DENY", "READ", topic_name, "User:bob"))

    done = replication("plan", config, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows"][0]["acls"] == [
        {
            "to_do": "create",
            "topic": f"A.{topic_name}",
            "pattern": "LITERAL",
            "principal": "User:bob",
            "host": "*",
            "operation": "READ",
            "permission": "DENY",
        }
    ]
