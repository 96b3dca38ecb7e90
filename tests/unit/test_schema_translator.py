"""What a record that waits for a schema's id gets, and when its topic goes without it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, cast

import pytest
from pyspark.sql import SparkSession

from replication.config.changes import Change
from replication.config.schema_settings import registry_of
from replication.flows.context import FlowContext
from replication.flows.replicate.schemas import AT_ONCE, WAIT_SECONDS, SchemaTranslator
from replication.kafka.registry import Registry as RealRegistry
from replication.kafka.registry import RegistryError
from replication.model import Mode, TopicPartition
from replication.schemas.values import Part, Schema, Version
from replication.spark.session import LateSession
from replication.spark.wanted_schemas import Answers, SchemaName, WantedSchema
from replication.state.files import LocalFiles
from replication.state.requests import RequestChannel
from replication.state.tables import Tables
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.schemas import TranslatedSchemas
from tests.support.schema_registry import Registries, own_keys
from tests.support.settings import ONE_FLOW, parse_settings
from tests.support.stored import stored
from tests.support.waiting import wait_until

Item = TypeVar("Item")
Read = TypeVar("Read")
VERSION = Version("A.orders-value", 1, 51, Schema('"int"'))
FINAL = RegistryError("cannot register: 409 no", 409, "no")
GUID = "00000000-0000-0001-ffff-ffffffffffff"
DOWN = RegistryError("cannot register: no answer", 0, "no answer")


def never() -> SparkSession:
    raise AssertionError("Spark is not needed")


@dataclass
class Registry:
    """Answers as it is told."""

    answer: Version | RegistryError | None = VERSION
    asked: int = 0

    def each(self, ask: Callable[[Item], Read], items: Iterable[Item]) -> list[Read]:
        return [ask(item) for item in items]

    def register(
        self, number: int, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        assert (number, topic, part, remote) == (7, "orders", "value", {"orders": "A.orders"})
        return self._answered()

    def register_guid(
        self, guid: str, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        assert (guid, topic, part, remote) == (GUID, "orders", "value", {"orders": "A.orders"})
        return self._answered()

    def _answered(self) -> Version | None:
        self.asked += 1
        if isinstance(self.answer, RegistryError):
            raise self.answer
        return self.answer


@dataclass
class Executors:
    """One record waits until it is told something."""

    waiting: list[WantedSchema]
    told: list[tuple[tuple[str, Part], Answers]] = field(default_factory=list)

    def wanted(self) -> list[WantedSchema]:
        return self.waiting

    def tell(self, place: tuple[str, Part], ids: Answers) -> None:
        self.told.append((place, ids))
        self.waiting = []


class Waiting(Executors):
    """Each record waits until its topic is told something."""

    def tell(self, place: tuple[str, Part], ids: Answers) -> None:
        self.told.append((place, ids))
        self.waiting = [one for one in self.waiting if one.remote.topic != place[0]]


def wants(number: SchemaName | None = 7, *, is_alone: bool = False) -> list[WantedSchema]:
    return [WantedSchema(TopicPartition("A.orders", 3), 42, "value", number, is_alone)]


@dataclass
class Desk:
    """A desk, what it asks, and its clock."""

    context: FlowContext
    registry: Registry
    executors: Executors
    seconds: float = 0

    def __post_init__(self) -> None:
        self.desk = SchemaTranslator(
            self.context, self.registry, self.executors, lambda: self.seconds
        )
        self.context.refused_schemas.copied["A.orders"] = "orders"
        self.context.refused_schemas.begin(self.desk.again)

    @property
    def refused(self) -> Mapping[str, str]:
        return self.context.refused_schemas.of({"orders"})


def desk(folder: Path, number: SchemaName | None = 7, mode: str = "auto") -> Desk:
    (config,) = parse_settings({**ONE_FLOW, "replication.mode": mode}).flows
    none = cast("Any", None)  # no cluster is asked
    tables = Tables(LateSession(never), folder.as_uri())
    requests = RequestChannel(LocalFiles(), tables.root)
    context = FlowContext(config, LateSession(never), tables, none, none, requests, none)
    return Desk(context, Registry(), Executors(wants(number)))


def test_an_id_is_in_the_table_before_it_is_told(tmp_path: Path) -> None:
    one = desk(tmp_path)
    one.desk.look()
    (row,) = stored(tmp_path, "schema_ids")
    assert (row.topic, row.part, row.source_id, row.target_id) == ("orders", "value", 7, 51)
    assert one.executors.told == [(("A.orders", "value"), {7: 51})]
    assert one.refused == {}


def test_an_id_is_not_told_where_the_table_cannot_be_written(tmp_path: Path) -> None:
    one = desk(tmp_path)
    one.context.tables.begin_folder()
    (tmp_path / "schema_ids").write_text("no table")
    with pytest.raises(Exception, match="schema_ids"):
        one.desk.look()
    assert one.executors.told == []
    (tmp_path / "schema_ids").unlink()
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {7: 51})]


def test_nothing_is_registered_while_an_operation_holds_the_flow(tmp_path: Path) -> None:
    one = desk(tmp_path)
    flow, changes = one.context.config.flow, one.context.changes
    changes.write(Change(flow, "hold", ("dr-1",), by="me@here", at="x"))
    changes.read()
    one.desk.look()
    assert one.registry.asked == 0

    changes.write(Change(flow, "release", ("dr-1",), by="me@here", at="x"))
    changes.read()
    one.desk.look()
    assert one.registry.asked == 1


def test_what_is_known_is_told_without_a_question(tmp_path: Path) -> None:
    one = desk(tmp_path)
    one.context.config.schema_ids.add("orders", "value", 7, 12)
    one.context.config.schema_ids.add("orders", "value", 8, 13)
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {7: 12, 8: 13})]
    assert one.registry.asked == 0


@pytest.mark.parametrize(
    ("answer", "number", "text"),
    [
        (FINAL, 7, "cannot be copied: cannot register: 409 no"),
        (None, 7, "the schema registry of A knows no schema with its id 7"),
        (VERSION, None, "it carries no schema id, and replication.schemas.unframed is fail"),
    ],
)
def test_a_topic_goes_without_what_cannot_be_registered_until_it_can(
    tmp_path: Path, answer: Version | RegistryError | None, number: int | None, text: str
) -> None:
    one = desk(tmp_path, number)
    one.registry.answer = answer
    one.desk.look()
    assert text in one.refused["orders"]
    assert "the value of orders-3 offset 42 cannot be copied: " in one.refused["orders"]
    assert one.executors.told == [(("A.orders", "value"), {number: None})]
    before = dict(one.refused)
    assert one.context.refused_schemas.try_again({"orders"}) == before != {}

    one.registry.answer = VERSION
    left = one.context.refused_schemas.try_again({"orders"})
    assert (left == {}) == (number is not None)


def test_a_registry_that_is_down_is_asked_less_often_and_is_an_event_once(tmp_path: Path) -> None:
    one = desk(tmp_path)
    one.registry.answer = DOWN
    while one.seconds < 3 * WAIT_SECONDS:
        one.desk.look()
        one.seconds += 0.2
    assert 10 < one.registry.asked < 30
    assert one.refused == {}
    assert one.executors.told == []
    (event,) = stored(tmp_path, "events")
    assert (event.kind, event.topic) == ("schema-waits", "orders")
    assert "the value of orders-3 offset 42 waits for schema id 7" in event.text

    one.registry.answer = VERSION
    one.seconds += WAIT_SECONDS
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {7: 51})]


def plan_of(*topics: str) -> TopicPlan:
    return TopicPlan({topic: f"A.{topic}" for topic in topics}, (), {}, (), {})


@pytest.mark.parametrize(
    ("mode", "topics", "is_alone", "is_set_aside"),
    [
        ("realtime", ("orders", "clicks"), False, True),
        ("microbatch", ("orders", "clicks"), False, True),
        ("microbatch", ("orders",), False, False),
        ("realtime", ("orders", "clicks"), True, False),
        ("microbatch", ("orders", "clicks"), True, False),
    ],
)
def test_a_topic_goes_where_others_wait_with_it(
    tmp_path: Path, mode: Mode, topics: Sequence[str], *, is_alone: bool, is_set_aside: bool
) -> None:
    one = desk(tmp_path)
    one.executors.waiting = wants(is_alone=is_alone)
    one.context.metrics.begin(1, mode, plan_of(*topics), {})
    one.registry.answer = DOWN
    one.desk.look()
    one.seconds = WAIT_SECONDS + 1
    one.desk.look()
    assert bool(one.refused) == is_set_aside


def test_a_drain_does_not_wait_for_ever(tmp_path: Path) -> None:
    one = desk(tmp_path, mode="drain")
    one.registry.answer = DOWN
    one.desk.look()
    assert one.refused == {}
    one.seconds = WAIT_SECONDS + 1
    one.desk.look()
    assert "no answer" in one.refused["orders"]
    before = dict(one.refused)  # the same words, so that it is no new event
    assert one.context.refused_schemas.try_again({"orders"}) == before


def test_a_record_that_waits_no_longer_is_forgotten(tmp_path: Path) -> None:
    one = desk(tmp_path)
    one.registry.answer = DOWN
    one.desk.look()
    one.executors.waiting = []
    one.desk.look()
    one.seconds = WAIT_SECONDS + 1
    one.executors.waiting = wants()
    one.desk.look()
    assert not (tmp_path / "events").exists()


def test_a_guid_is_registered_once_and_told_without_a_row(tmp_path: Path) -> None:
    one = desk(tmp_path, GUID)
    one.desk.look()
    one.executors.waiting = wants(GUID)  # another task
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {GUID: GUID})] * 2
    assert one.registry.asked == 1
    assert not (tmp_path / "schema_ids").exists()
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize(
    "answer", [None, FINAL, RegistryError("cannot look for the schema: 404 no", 404, "no")]
)
def test_a_guid_that_cannot_be_registered_is_an_event_of_its_topic_and_holds_nothing_up(
    tmp_path: Path, answer: RegistryError | None
) -> None:
    one = desk(tmp_path, GUID)
    one.registry.answer = answer
    one.desk.look()
    one.executors.waiting = wants(GUID)
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {GUID: GUID})] * 2
    assert one.refused == {}
    (event,) = stored(tmp_path, "events")
    assert (event.kind, event.topic) == ("schema-unregistered", "orders")
    assert f"the header of a value of orders names the schema {GUID}" in event.text


def test_a_guid_waits_for_a_registry_that_is_down(tmp_path: Path) -> None:
    one = desk(tmp_path, GUID)
    one.registry.answer = DOWN
    one.desk.look()
    assert one.executors.told == []
    one.registry.answer = VERSION
    one.seconds += WAIT_SECONDS
    one.desk.look()
    assert one.executors.told == [(("A.orders", "value"), {GUID: GUID})]


def test_schemas_of_many_topics_are_registered_at_the_same_time_and_by_one_row_write(
    tmp_path: Path, registries: Registries
) -> None:
    a, b = registries
    one, names = desk(tmp_path), [f"orders-{number}" for number in range(2 * AT_ONCE)]
    ids = {name: a.register(f"{name}-value", f'"{name}"') for name in names}
    one.context.refused_schemas.copied.update({f"A.{name}": name for name in names})
    waiting = [
        WantedSchema(TopicPartition(f"A.{name}", 0), 0, "value", ids[name]) for name in names
    ]
    executors = Waiting(waiting)
    source, target = (
        RealRegistry(alias, registry_of(own_keys(fake)))
        for alias, fake in zip("AB", registries, strict=True)
    )
    with closing(source), closing(target):
        one.desk = SchemaTranslator(one.context, TranslatedSchemas(source, target), executors)
        a.held.set()
        looking = Thread(target=one.desk.look)
        looking.start()
        try:
            wait_until(lambda: len(a.asked) == 8, 10)  # before any of them is answered
        finally:
            a.held.clear()
            looking.join(30)
        assert len(executors.told) == AT_ONCE  # they do not wait for the others
        one.desk.look()

    assert executors.waiting == []
    assert len(stored(tmp_path, "schema_ids")) == 2 * AT_ONCE
    assert len(list((tmp_path / "schema_ids" / "_delta_log").glob("*.json"))) <= 4
    assert len(b.context.subjects) == 2 * AT_ONCE
    assert (len(a.asked), len(b.asked)) == (2 * AT_ONCE, 2 * AT_ONCE)
