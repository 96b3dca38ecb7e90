"""What a sample says of records: problems, counts, and bytes as text."""

from typing import Any

import pytest

from replication.control.sample import FlowSample, TopicSample, text_of
from replication.model import Flow, TopicPartition
from replication.spark.transform_check import SHOWN_BYTES, Outcome, Sampled, ShownRecord

BEFORE = ShownRecord(b"k", None, (("h", b"\xff"), ("n", None)), 3)


def sampled(
    offset: int, outcome: Outcome, error: str = "", differing: tuple[str, ...] = ()
) -> Sampled:
    after = BEFORE if outcome in ("same", "changed") else None
    tp = TopicPartition("orders", 2)
    return Sampled(tp, offset, BEFORE, after, outcome, error, differing)


RECORDS = (
    sampled(4, "changed", differing=("key", "value")),
    sampled(5, "dropped"),
    sampled(6, "error", "its filter is NULL"),
)


def test_of_a_topic_it_is_said_how_many_fail_and_the_first_of_them() -> None:
    records = (*RECORDS, sampled(7, "error", "its value becomes NULL"))
    sample = FlowSample(Flow("A", "B"), (TopicSample("orders", ("mask",), records),))

    failing, differing = sample.problems
    many = "orders: 2 of 4 records of the sample fail, the first: orders-2 offset 6: its filter is"
    assert failing == f"{many} NULL"
    assert differing.startswith(
        "orders: 1 of 4 records of the sample differ, the first: orders-2 offset 4: two "
        "evaluations differ in the key and value"
    )
    assert sample.topics[0].counts == {"same": 0, "changed": 1, "dropped": 1, "error": 2}


def test_a_document_has_texts_as_they_are_and_other_bytes_in_base64() -> None:
    sample = FlowSample(Flow("A", "B"), (TopicSample("orders", ("mask",), RECORDS[1:2]),))

    topics: Any = sample.document()["topics"]
    assert topics[0]["records"] == [
        {
            "partition": 2,
            "offset": 5,
            "outcome": "dropped",
            "error": "",
            "differing": [],
            "before": {
                "key": "k",
                "value": None,
                "headers": [["h", {"base64": "/w=="}], ["n", None]],
                "bytes": 3,
            },
            "after": None,
        }
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", ""),
        ("größe".encode(), "größe"),
        (b"\xff\x00", "0xff00"),
        ("é".encode() * SHOWN_BYTES, "é" * (SHOWN_BYTES // 2)),
        (b"x" + "é".encode() * SHOWN_BYTES, "x" + "é" * ((SHOWN_BYTES - 1) // 2)),
    ],
)
def test_bytes_are_shown_as_text_even_where_they_were_cut_in_a_letter(
    data: bytes | None, text: str
) -> None:
    assert text_of(None if data is None else data[:SHOWN_BYTES]) == text
