"""What others can write: of JSON only what is whole, small and printable is read."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.changes import Change, parse_change
from replication.control.plan import PartitionStart
from replication.control.preview import Effect
from replication.control.status import End, FlowStatus
from replication.features.doctor.check_result import CheckResult
from replication.foreign_json import (
    LARGEST,
    Form,
    from_json,
    in_json,
    number,
    read_json,
    text,
    to_json,
    whole,
)
from replication.mm2.status_records import StatusKey, StatusRecordError
from replication.mm2.wire import stored_position
from replication.model import Flow, TopicPartition
from replication.schemas.values import Schema
from replication.state.requests import (
    AcceptRequest,
    DeadLetterRequest,
    MoveRequest,
    OwnerRequest,
    parse_request,
)

ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["\ud800", 10**400, "orders", "earliest", 7]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)  # fmt: skip
FIELDS = (
    "by", "reason", "topic", "topic_id", "partition", "partitions", "from", "to", "seen", "letters",
    "flow", "what", "scope", "at", "items",
)  # fmt: skip


@given(ANY)
def test_what_is_read_can_be_written_again(value: object) -> None:
    try:
        found = read_json(json.dumps(value))
    except ValueError:
        return
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"NaN", b"[-Infinity]", b'"\\ud800"',
        b"\xed\xa0\x80", b"x", b"", b"1" * 10_000, b" " * 200,
    ],
)  # fmt: skip
def test_what_has_no_end_or_cannot_be_printed_is_refused_without_its_content(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(data, most=100 if data == b" " * 200 else 10**6)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (text, 1), (text, None), (whole, True), (whole, 1.0), (whole, -1), (whole, LARGEST + 1),
        (number, True), (number, float("nan")), (number, float("inf")), (number, 10**400),
        (number, "1"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_or_out_of_bounds_is_refused(read: Any, value: object) -> None:  # noqa: ANN401
    with pytest.raises((TypeError, ValueError)):
        read(value)


@given(st.dictionaries(st.sampled_from(FIELDS), ANY))
def test_a_request_that_somebody_else_wrote_is_one_or_is_refused(content: dict[str, Any]) -> None:
    for kind in (AcceptRequest, MoveRequest, DeadLetterRequest):
        try:
            asked: OwnerRequest = kind.parse(parse_request("x", json.dumps(content)))
        except ValueError:
            continue
        assert f"{asked.event.text}".encode()
    with suppress(ValueError):
        parse_change(json.dumps(content), f"{1:010d}-{'0' * 32}")


POSITIONS = st.fixed_dictionaries(
    {"cluster": st.just("A"), "topic": st.just("t") | ANY, "partition": st.integers() | ANY}
)


@given(POSITIONS, st.dictionaries(st.just("offset"), st.integers() | ANY))
def test_a_position_that_a_worker_stored_is_one_of_kafka_or_none(key: Any, value: Any) -> None:  # noqa: ANN401
    encoded = json.dumps(["MirrorSourceConnector", key]).encode()
    found = stored_position("A", encoded, json.dumps(value).encode())

    assert found is None or 0 <= found[0].partition < 2**31
    assert found is None or found[1] is None or 0 < found[1] <= LARGEST


def test_an_offset_beyond_all_logs_is_no_position() -> None:
    key = b'["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "t"}]'

    assert stored_position("A", key, b'{"offset": 41}') == (TopicPartition("t", 0), 42)
    assert stored_position("A", key, b'{"offset": %d}' % 10**30) == (TopicPartition("t", 0), None)


def test_a_task_without_an_end_is_no_key_and_a_deep_schema_is_one_as_it_is_written() -> None:
    with pytest.raises(StatusRecordError):
        StatusKey.decode(b"status-task-C-" + b"9" * 5_000)
    deep = Schema("[" * 100_000)

    assert deep.means(Schema("[" * 100_000))


@dataclass(frozen=True, slots=True)
class Toy:
    """A part of a dataclass."""

    name: str


@dataclass(frozen=True, slots=True)
class Cat:
    """A dataclass with all kinds of fields."""

    name: str
    lives: int | None
    colour: Literal["black", "white"]
    weight: float = field(metadata=in_json("kg"))
    toys: tuple[Toy, ...] = ()
    caught: Mapping[str, Annotated[int, Form(int, str)]] = field(default_factory=dict)
    mood: str = field(default="", metadata=in_json(""))


TOM = {
    "name": "Tom", "lives": 9, "colour": "black", "kg": 4,
    "toys": [{"name": "ball"}], "caught": {"mice": "3"},
}  # fmt: skip


def test_a_dataclass_is_read_and_written_by_its_fields() -> None:
    cat = Cat("Tom", 9, "black", 4, (Toy("ball"),), {"mice": 3}, "sleepy")

    assert to_json(cat) == TOM
    assert from_json(Cat, {**TOM, "age": 4}) == replace(cat, mood="")
    assert from_json(Cat, {**TOM, "lives": None}) == replace(cat, mood="", lives=None)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"lives": -1}, {"lives": True}, {"colour": "red"}, {"colour": []},
        {"kg": float("nan")}, {"toys": None}, {"toys": [1]}, {"toys": [{}]}, {"caught": []},
    ],
)  # fmt: skip
def test_a_dataclass_is_not_read_of_anything_else(change: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_json(Cat, TOM | change)


AB = Flow("A", "B")
CLICKS = TopicPartition("clicks", 3)
NOW = datetime(2026, 11, 26, 10, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            Change(AB, "pause", ("clicks:3",), by="ann@desk", number=7, id="ab"),
            {
                "flow": "A->B", "what": "pause", "items": ["clicks:3"], "scope": "",
                "by": "ann@desk", "at": "", "reason": "",
            },
            id="a change without its name",
        ),
        pytest.param(
            CheckResult(what="a", found="b", verdict="problem", exit_code=3),
            {"what": "a", "found": "b", "verdict": "problem", "next_step": None, "commands": []},
            id="a finding without a next step",
        ),
        pytest.param(
            Effect({"a": "A.a"}, {}, ("A.a",), (CLICKS,), warnings=("w",)),
            {
                "topics_come": {"a": "A.a"}, "topics_go": {}, "remote_topics_to_create": ["A.a"],
                "pauses": ["clicks-3"], "resumes": [], "groups_come": [], "groups_go": [],
                "warnings": ["w"],
            },
            id="an effect",
        ),
        pytest.param(
            FlowStatus(AB, None, "nobody", End(NOW, "stopped", 0, None), ()),
            {
                "flow": "A->B", "process": None, "liveness": "nobody",
                "last_end": {
                    "at": "2026-11-26T10:00:00+00:00", "ending": "stopped", "exit_code": 0,
                    "cause": None,
                },
                "not_replicated": [],
            },
            id="a status by the tables",
        ),
        pytest.param(
            PartitionStart(CLICKS, None, "problem", "why"),
            {"partition": 3, "offset": None, "origin": "problem", "reason": "why"},
            id="a start",
        ),
    ],
)  # fmt: skip
def test_what_commands_print_has_the_names_and_the_order_that_programs_know(
    value: object, expected: object
) -> None:
    assert json.dumps(to_json(value)) == json.dumps(expected)


def test_what_is_only_written_is_not_read() -> None:
    with pytest.raises(TypeError, match="only written"):
        from_json(PartitionStart, to_json(PartitionStart(CLICKS, None, "problem", "why")))
