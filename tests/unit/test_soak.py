"""The soak's choices: its command line, and faults that a seed repeats."""

from random import Random

import pytest

from tests.soak.faults import KINDS, choose
from tests.soak.options import parsed
from tests.soak.scene import MOST_PARTITIONS


def chosen(seed: int, partitions: int = 0) -> list[str]:
    """The first hundred faults of *seed*."""
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    return [choose(random, partitions).name for _ in range(100)]


def test_a_seed_chooses_the_same_faults_again_and_all_kinds_of_them() -> None:
    assert chosen(7) == chosen(7)
    assert set(chosen(7)) == {kind.name for kind in KINDS}
    assert chosen(7) != chosen(8)


def test_a_driver_that_is_spared_is_neither_ended_nor_paused() -> None:
    random = Random(7)  # noqa: S311 - repeatable on purpose
    names = {choose(random, 0, is_driver_spared=True).name for _ in range(200)}

    assert {kind.name for kind in KINDS} - names == {
        "process killed", "process stopped", "process paused"
    }  # fmt: skip


def test_nothing_is_added_to_what_one_executor_can_just_hold() -> None:
    assert {"topic created", "partition added"}.isdisjoint(chosen(7, MOST_PARTITIONS))
    assert "topic created" not in chosen(7, MOST_PARTITIONS - 1)
    assert "partition added" in chosen(7, MOST_PARTITIONS - 1)


def test_mode_and_seconds_are_needed_and_the_seed_is_not() -> None:
    options = parsed(["drain", "90", "--seed", "3"], "")

    assert (options.mode, options.seconds, options.seed) == ("drain", 90, 3)
    assert isinstance(parsed(["realtime", "1"], "").seed, int)


@pytest.mark.parametrize(
    "arguments",
    [
        ["auto", "90"],
        ["drain"],
        ["drain", "0"],
        ["drain", "1", "--sead", "1"],
        ["drain", "9", "--spare-driver"],
    ],
)
def test_invalid_arguments_end_the_program(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(arguments, "")

    assert end.value.code == 2
