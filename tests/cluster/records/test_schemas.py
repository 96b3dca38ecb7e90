"""Records with schema ids: a consumer that asks the target's registry decodes every copy."""

from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from replication.control.schemas import look_at_schemas
from replication.demo.play import MirrorProcess
from replication.demo.topic_log import TopicLog
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import GuardError
from replication.features.doctor.host import look_at_registries
from replication.flows import metadata
from replication.model import Mode
from tests.support.commands import spark_submit, start_mirror
from tests.support.events import kinds_of_topics
from tests.support.flows import RunningFlow, flow_config, mirror_config
from tests.support.framed import decoded, framed, records, said, schema
from tests.support.gate.clock import Limit
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import kill_tree
from tests.support.schema_registry import Registries, guid_of, keys
from tests.support.stored import stored
from tests.support.topics import copied, fill, send, send_records
from tests.support.waiting import Late

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_translated_records_are_decoded_while_schemas_come_and_the_registry_goes(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
    mode: Mode,
) -> None:
    (source, target), (a, b) = clusters, registries
    value, other = f"{topic_name}-value", f"{topic_name}-other"
    for number in range(3):  # so that ids differ
        b.register("elsewhere-value", schema(f"Elsewhere{number}"))
    a.context.levels[value] = "NONE"
    fill(source, other, 1, 10)
    create_topic(source.bootstrap, topic_name, 2)
    send_records(source, topic_name, records(a, value, "First", range(20)))
    send_records(source, topic_name, records(a, value, "First", range(5), partition=1))
    config = flow_config(
        source,
        target,
        f"{topic_name}.*",
        keys(*registries, "translate", topic_name),
    )
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, topic_name) >= 25)

    send_records(source, topic_name, records(a, value, "Second", range(10)))
    flow.until(lambda: copied(clusters, topic_name) >= 35)

    b.fault = 503
    asked = len(b.asked)
    send_records(source, topic_name, records(a, value, "Third", range(10)))
    flow.until(lambda: len(b.asked) > asked)  # a record waits
    send_records(source, topic_name, records(a, value, "First", range(5, 10), partition=1))
    b.fault = 0
    flow.until(lambda: copied(clusters, topic_name) >= 50)

    send_records(source, topic_name, records(a, value, "incompatible", range(5)))
    flow.until(lambda: ("set-aside", topic_name) in kinds_of_topics(flow.tables))
    send(source, other, 1, 10)
    flow.until(lambda: copied(clusters, other) >= 20)
    b.context.levels[f"A.{value}"] = "NONE"
    flow.until(lambda: ("rejoined", topic_name) in kinds_of_topics(flow.tables))
    flow.until(lambda: copied(clusters, topic_name) >= 55)
    flow.stop()

    names = {"First": 20, "Second": 10, "Third": 10, "incompatible": 5}
    assert decoded(target, f"A.{topic_name}", b) == [
        text for name, count in names.items() for text in said(name, range(count))
    ]
    assert decoded(target, f"A.{topic_name}", b, 1) == said("First", range(10))
    (event,) = stored(flow.tables, "events", f"kind = 'set-aside' AND topic = '{topic_name}'")
    assert "409 Schema being registered is incompatible" in event.text
    rows = stored(flow.tables, "schema_ids", order="at")
    assert [row.source_id != row.target_id for row in rows] == [True] * 4
    assert {row.subject for row in rows} == {f"A.{value}"}


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_only_the_partition_of_a_new_schema_waits_for_its_registration(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
    mode: Mode,
) -> None:
    (source, target), (a, b) = clusters, registries
    value, other = f"{topic_name}-value", f"{topic_name}-other"
    b.register("elsewhere-value", schema("Elsewhere"))  # so that ids differ
    fill(source, other, 1, 10)
    create_topic(source.bootstrap, topic_name, 2)
    send_records(source, topic_name, records(a, value, "First", range(20)))
    send_records(source, topic_name, records(a, value, "First", range(10), partition=1))
    more = {**keys(a, b, "translate", topic_name), "replication.source": "shared"}
    config = flow_config(source, target, f"{topic_name}.*", more)
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, topic_name) >= 30 and copied(clusters, other) >= 10)

    b.fault = 503
    asked = len(b.asked)
    send_records(source, topic_name, records(a, value, "Second", range(30)))
    flow.until(lambda: len(b.asked) > asked)  # a record waits
    for count in (10, 20, 30):  # several micro-batches
        more_records = records(a, value, "First", range(count, count + 10), partition=1)
        send_records(source, topic_name, more_records)
        send(source, other, 1, 10)
        flow.until(partial(has_copied, clusters, other, 10 + count))
        flow.until(partial(has_copied, clusters, topic_name, 30 + count))
        assert copied(clusters, topic_name) == 30 + count
    b.fault = 0
    flow.until(lambda: copied(clusters, topic_name) >= 90)
    send_records(source, topic_name, records(a, value, "Third", range(5)))
    flow.until(lambda: copied(clusters, topic_name) >= 95)
    flow.stop()
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert decoded(target, f"A.{topic_name}", b) == [
        *said("First", range(20)),
        *said("Second", range(30)),
        *said("Third", range(5)),
    ]
    assert decoded(target, f"A.{topic_name}", b, 1) == said("First", range(40))
    kinds = {kind for kind, _ in kinds_of_topics(flow.tables)}
    assert kinds.isdisjoint({"set-aside", "realigned", "unconfirmed"}), kinds


def test_what_carries_no_id_is_copied_as_it_is_or_sets_its_topic_aside(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
) -> None:
    (source, target), (a, b) = clusters, registries
    a.register("filler", schema("Filler"))
    key = a.register(f"{topic_name}-key", '"string"')
    number = a.register(f"{topic_name}-value", schema("Order"))
    values = [None, b"", b"{}", b"\0\0\0", framed(number, "Order 1"), b"plain"]
    create_topic(source.bootstrap, topic_name, 1)
    send_records(
        source,
        topic_name,
        [
            ProducedRecord(partition=0, key=None if each == b"{}" else framed(key, "k"), value=each)
            for each in values
        ],
    )
    kept = RunningFlow(
        spark,
        tmp_path,
        flow_config(source, target, topic_name, keys(*registries, "translate", topic_name)),
        "microbatch",
    )
    kept.until(lambda: copied(clusters, topic_name) >= len(values))
    kept.stop()

    log = [
        record.content
        for record in TopicLog(target.bootstrap, f"A.{topic_name}", "read_committed").records(0)
    ]
    there = b.context.subjects[f"A.{topic_name}-value"][1]
    own_key = framed(b.context.subjects[f"A.{topic_name}-key"][1], "k")
    assert [each.value for each in log] == [*values[:4], framed(there, "Order 1"), b"plain"]
    assert [each.key for each in log] == [own_key, own_key, None, *[own_key] * 3]

    strict = {
        **keys(*registries, "translate", f"{topic_name}.*"),
        "replication.schemas.unframed": "fail",
    }
    other = f"{topic_name}-other"
    fill(source, other, 1, 3)
    config = flow_config(source, target, f"{topic_name}.*", strict)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: ("set-aside", other) in kinds_of_topics(flow.tables))
    send_records(source, topic_name, records(a, f"{topic_name}-value", "Order", [2]))
    flow.until(lambda: copied(clusters, topic_name) > len(values))
    flow.stop()
    (event,) = stored(flow.tables, "events", f"kind = 'set-aside' AND topic = '{other}'")
    assert (
        f"the value of {other}-0 offset 0 cannot be copied: it carries no schema id" in event.text
    )


def test_what_a_header_names_is_no_frame_and_its_schema_is_registered(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
) -> None:
    (source, target), (a, b) = clusters, registries
    for number in range(3):  # so that ids differ
        b.register("elsewhere-value", schema(f"Elsewhere{number}"))
    a.register("other-value", schema("Other"))
    number = a.register(f"{topic_name}-value", schema("Reading"))
    guid = UUID(guid_of(a.context.schemas[number]))
    name, zeros = "__value_schema_id", framed(1, "rest")  # Avro of zeros
    by_guid, unknown = b"\1" + guid.bytes, b"\1" + bytes(range(16))
    headers: list[bytes | None] = [by_guid, framed(number, ""), unknown, None, b"?", by_guid]
    create_topic(source.bootstrap, topic_name, 1)
    send_records(
        source,
        topic_name,
        [
            ProducedRecord(partition=0, key=None, value=zeros, headers=((name, each), ("h", b"")))
            for each in headers
        ],
    )
    more = keys(*registries, "translate", topic_name)
    config = flow_config(source, target, topic_name, more)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= len(headers))
    flow.stop()
    RunningFlow(spark, tmp_path, config, "drain").join()  # it recognises them

    there = {one["schema"]: id_ for id_, one in b.context.schemas.items()}
    other, own = there[schema("Other")], there[schema("Reading")]
    copies = list(TopicLog(target.bootstrap, f"A.{topic_name}", "read_committed").records(0))
    values = [one.content.value for one in copies]
    assert values == [*[zeros] * 3, framed(other, "rest"), zeros, zeros]
    named = [dict(one.content.headers)[name] for one in copies]
    assert named == [by_guid, framed(own, ""), unknown, None, b"?", by_guid]
    assert guid_of(b.context.schemas[own]) == str(guid)
    assert b.context.subjects[f"A.{topic_name}-value"][1] == own
    (event,) = stored(flow.tables, "events", "kind = 'schema-unregistered'")
    assert f"names the schema {UUID(bytes=unknown[1:])}, which is not registered" in event.text
    kinds = {kind for kind, _ in kinds_of_topics(flow.tables)}
    assert kinds.isdisjoint({"set-aside", "realigned", "unconfirmed"}), kinds


def test_preserved_schemas_are_there_before_their_records_and_new_ones_follow(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
) -> None:
    (source, target), (a, b) = clusters, registries
    value = f"{topic_name}-value"
    a.register("elsewhere-value", schema("Elsewhere"))
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, records(a, value, "First", range(10)))
    config = flow_config(source, target, topic_name, keys(*registries, "preserve", topic_name))
    taken = b.register("other-value", schema("Other0")), b.register("other-value", schema("Other"))
    refused = RunningFlow(spark, tmp_path, config, "microbatch")
    with pytest.raises(GuardError, match=f"id {taken[1]} is another schema there"):
        refused.join()
    assert copied(clusters, topic_name) == 0
    mirror = mirror_config(source, target, topic_name, keys(*registries, "preserve", topic_name))
    assert [one.kind for one in look_at_schemas(mirror, config).found.conflicts] == ["id"]
    b.contexts.clear()
    assert [one.number for one in look_at_schemas(mirror, config).found.missing] == [1]
    b.user = "mirror:another"
    assert [one.verdict for one in look_at_registries(mirror)] == ["ok", "problem"]
    b.user = "mirror:secret"
    assert [one.verdict for one in look_at_registries(mirror)] == ["ok", "ok"]

    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= 10)
    assert decoded(target, f"A.{topic_name}", b) == said("First", range(10))
    a.context.levels[value] = "FULL"
    send_records(source, topic_name, records(a, value, "Second", range(10)))
    flow.until(lambda: b.context.levels.get(f"A.{value}") == "FULL")
    flow.until(lambda: copied(clusters, topic_name) >= 20)
    flow.stop()

    assert decoded(target, f"A.{topic_name}", b) == [
        *said("First", range(10)),
        *said("Second", range(10)),
    ]
    assert look_at_schemas(mirror, config).found.is_equal
    assert b.context.subjects[f"A.{value}"] == a.context.subjects[value]
    originals = TopicLog(source.bootstrap, topic_name, "read_committed").records(0)
    copies = TopicLog(target.bootstrap, f"A.{topic_name}", "read_committed").records(0)
    assert [one.content.value for one in originals] == [one.content.value for one in copies]


def test_a_limit_of_requests_holds_up_no_record_and_the_rest_of_the_schemas_follows(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "START_SECONDS", 1.0)
    (source, target), (a, b) = clusters, registries
    create_topic(source.bootstrap, topic_name, 1)
    for number in range(80):
        a.register(f"{topic_name}-shop.R{number}", schema(f"R{number}"))
    a.limit = b.limit = 20
    b.fault, b.pause = 503, "1"
    send_records(source, topic_name, records(a, f"{topic_name}-value", "First", range(10)))
    config = flow_config(source, target, topic_name, keys(a, b, "preserve", topic_name))
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.until(lambda: copied(clusters, topic_name) >= 10)
    assert not b.context.subjects
    b.fault = 0
    flow.join()  # once all is registered

    assert len(b.context.subjects) == 81
    assert decoded(target, f"A.{topic_name}", b) == said("First", range(10))
    (event,) = stored(flow.tables, "events", "kind = 'schemas-late'")
    assert "not all schemas are registered at the target" in event.text


@pytest.mark.job
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["auto", "microbatch"])
def test_a_kill_while_an_id_is_unknown_loses_and_repeats_nothing(
    clusters: Clusters, tmp_path: Path, topic_name: str, registries: Registries, mode: str
) -> None:
    (source, target), (a, b) = clusters, registries
    value, remote = f"{topic_name}-value", f"A.{topic_name}"
    for number in range(3):  # so that ids differ
        b.register("elsewhere-value", schema(f"Elsewhere{number}"))
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, records(a, value, "First", range(2000)))
    more = {**keys(*registries, "translate", topic_name), "replication.mode": mode}
    config = write_config(tmp_path, clusters, topic_name, more)
    mirror = start_mirror(config, tmp_path / "first.log")
    try:
        await_copies(mirror, clusters, topic_name, 2000)
        b.fault = 503
        asked = len(b.asked)
        send_records(source, topic_name, records(a, value, "Second", range(2000)))
        limit = Limit(60)
        while len(b.asked) == asked:
            assert not limit.is_over, "no record asks for the new schema"
            mirror.run_for(0.05)
        kill_tree(mirror.pid)
    finally:
        mirror.discard()
    assert copied(clusters, topic_name) == 2000
    b.fault = 0

    finished = spark_submit(config, "--mode", "drain")

    assert finished.returncode == 0, finished.stdout[-3000:]
    assert decoded(target, remote, b) == [
        *said("First", range(2000)),
        *said("Second", range(2000)),
    ]
    assert stored(tmp_path / "state", "events", "kind = 'realigned'") == []


def has_copied(clusters: Clusters, topic: str, count: int) -> bool:
    """Whether the remote topic holds *count* records."""
    return copied(clusters, topic) >= count


def await_copies(mirror: MirrorProcess, clusters: Clusters, topic: str, count: int) -> None:
    """Returns once the remote topic holds *count* records."""
    limit = Limit(90)
    while copied(clusters, topic) < count:
        if limit.is_over:
            raise Late(f"nothing was copied; see {mirror.log}", limit)
        mirror.run_for(0.05)
