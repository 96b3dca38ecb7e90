"""A safe resume position after a crash when the target's last records differ."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.offsets.copy_rule import Alignment, Fingerprint, align, align_regrown
from replication.offsets.runs import OffsetRun

Log = list[Fingerprint]


def log(records: str, *, at: int = 0) -> Log:
    """A log of one-letter records from offset *at*; a dot is an offset without a record."""
    return [
        Fingerprint(at + i, ord(letter), None) for i, letter in enumerate(records) if letter != "."
    ]


def align_logs(source: str, target: str) -> Alignment:
    return align(iter(log(source)), iter(log(target, at=100)), source_end=len(source))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        pytest.param(
            "abcdef", "abc", Alignment(3, 3, 0, (OffsetRun(0, 3, 100, 3),)), id="clean prefix"
        ),
        pytest.param(
            "abc", "abc", Alignment(3, 3, 0, (OffsetRun(0, 3, 100, 3),)), id="complete copy"
        ),
        pytest.param("abc", "", Alignment(0, 0, 0, ()), id="nothing was written"),
        pytest.param("", "", Alignment(0, 0, 0, ()), id="nothing was read"),
        pytest.param(
            "a.b.cd", "ab", Alignment(4, 2, 0, (OffsetRun(0, 3, 100, 2),)), id="gaps in the source"
        ),
        pytest.param(
            "ab..",
            "ab",
            Alignment(4, 2, 0, (OffsetRun(0, 2, 100, 2),)),
            id="gap at the end of the source",
        ),
        pytest.param(
            "abcd",
            "acd",
            Alignment(1, 1, 2, (OffsetRun(0, 1, 100, 1),)),
            id="gap: the rejected record and the later ones are written again",
        ),
        pytest.param(
            "abcd",
            "aXbYc",
            Alignment(
                3,
                3,
                2,
                (OffsetRun(0, 1, 100, 1), OffsetRun(1, 2, 102, 1), OffsetRun(2, 3, 104, 1)),
            ),
            id="another producer",
        ),
        pytest.param(
            "a..de",
            "abcd",
            Alignment(4, 2, 2, (OffsetRun(0, 1, 100, 1), OffsetRun(3, 4, 103, 1))),
            id="source compacted after the crash",
        ),
        pytest.param(
            "abcd",
            "a.cd",
            Alignment(1, 1, 2, (OffsetRun(0, 1, 100, 1),)),
            id="target compacted: a gap",
        ),
        pytest.param(
            "xxxx", "xx", Alignment(2, 2, 0, (OffsetRun(0, 2, 100, 2),)), id="identical records"
        ),
        pytest.param(
            "xyx",
            "xx",
            Alignment(1, 1, 1, (OffsetRun(0, 1, 100, 1),)),
            id="identical records around a gap",
        ),
        pytest.param(
            "...", "ab", Alignment(3, 0, 2, ()), id="source compacted to nothing: resume at its end"
        ),
    ],
)
def test_how_far_the_target_matches_the_source(
    source: str, target: str, expected: Alignment
) -> None:
    assert align_logs(source, target) == expected


def test_the_source_is_read_one_record_past_the_last_match() -> None:
    source = iter(log("abcdef"))

    align(source, iter(log("ab")), source_end=6)

    assert next(source) == Fingerprint(3, ord("d"), None)


@st.composite
def crashes(draw: st.DrawFn, letters: int) -> tuple[Log, Log, int]:
    """Source and target after a crash whose target is rarely a clean prefix of the source."""
    size = draw(st.integers(0, 12))
    hashes = draw(st.permutations(range(size))) if letters > size else None
    records = hashes or draw(st.lists(st.integers(0, letters), min_size=size, max_size=size))
    written = draw(st.integers(0, size))
    target = [record for record in records[:written] if draw(st.integers(0, 4))]
    for _ in range(draw(st.integers(0, 3))):
        target.insert(draw(st.integers(0, len(target))), draw(st.integers(0, letters + 3)))
    source = [one for one in prints(records) if draw(st.integers(0, 4))]
    return source, prints(target), size


def prints(records: Sequence[int]) -> Log:
    return [Fingerprint(offset, record, None) for offset, record in enumerate(records)]


def in_order(part: Iterator[object], whole: Iterator[object]) -> bool:
    return all(record in whole for record in part)


@pytest.mark.parametrize("letters", [2, 100])
def test_no_source_record_missing_on_the_target_is_skipped(letters: int) -> None:
    @given(crashes(letters))
    def check(crash: tuple[Log, Log, int]) -> None:
        source, target, end = crash
        result = align(iter(source), iter(target), source_end=end)
        before = [one.content for one in source if one.offset < result.upstream]
        on_target = [one.content for one in target]

        assert result.matched == len(before)
        assert not Counter(before) - Counter(on_target)
        assert in_order(iter(before), iter(on_target))
        following = [one.content for one in source if one.offset == result.upstream]
        longer = iter(before + following)
        assert not following or not in_order(longer, iter(on_target)), "a longer match exists"

    check()


@given(crashes(2))
def test_the_runs_pair_each_matched_record_with_its_copy(crash: tuple[Log, Log, int]) -> None:
    source, target, end = crash
    result = align(iter(source), iter(target), source_end=end)

    before = [(one.offset, one.content) for one in source if one.offset < result.upstream]
    in_runs = [
        (upstream, target[run.tgt_from + i].content)
        for run in result.runs
        for i, upstream in enumerate(
            one.offset for one in source if run.src_from <= one.offset < run.src_until
        )
    ]
    assert in_runs == before
    assert sum(run.count for run in result.runs) == result.matched
    assert len(target) == result.matched + result.target_only


@given(
    st.integers(0, 20), st.integers(0, 8), st.integers(1, 8), st.integers(0, 8), st.integers(0, 8)
)
def test_what_a_target_got_behind_a_cut_is_told_from_what_was_cut_off(
    before: int, lost: int, got: int, later: int, again: int
) -> None:
    source = [Fingerprint(at, 7 * at, None) for at in range(before + lost + got + later)]
    first, until = before + lost, before + lost + got
    written = [*source[first:until], *source[before : before + min(again, lost)]]
    target = [Fingerprint(500 + at, one.content, None) for at, one in enumerate(written)]

    found = align_regrown(
        before, lambda: iter(source[before:]), iter(target), source_end=len(source)
    )

    assert found is not None
    if lost:
        assert found.present == (first, until)
        left = before + again
        assert found.missing == ((left, first) if left < first else None)
    assert sum(run.count for run in found.runs) == len(written)
    stranger = [*target, Fingerprint(900, -1, None)]
    assert (
        align_regrown(before, lambda: iter(source[before:]), iter(stranger), source_end=len(source))
        is None
    )
