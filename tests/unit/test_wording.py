"""A translated offset reads the same in every command and in the demo's report."""

import pytest

from replication.offsets.map import Ahead, Bounded, Exact, NoAnswer, Translation, sentence


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Exact(30), "30 exact", id="exact"),
        pytest.param(Bounded(30, 1), "30 at most 1 record may be read again", id="one record"),
        pytest.param(Bounded(30, 7), "30 at most 7 records may be read again", id="records"),
        pytest.param(
            Bounded(0, 0, 7),
            "0 the earliest copy; 7 records before it were never copied",
            id="behind what was copied",
        ),
        pytest.param(
            Bounded(0, 3, 1),
            "0 the earliest copy; at most 3 records may be read again, 1 record was never copied",
            id="far behind an adopted position",
        ),
        pytest.param(
            Ahead(30, 7),
            "30 ahead of replication; at most 7 records may be read again",
            id="ahead",
        ),
        pytest.param(
            NoAnswer("nothing replicated", None), "none: nothing replicated", id="no offset map"
        ),
        pytest.param(
            NoAnswer("before the first run", 5),
            "none: before the offset map, which starts at offset 5",
            id="before the offset map",
        ),
    ],
)
def test_the_offset_comes_first_and_then_its_quality(answer: Translation, expected: str) -> None:
    assert sentence(answer) == expected
