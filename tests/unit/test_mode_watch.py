"""A generation ends when it has not fitted the task slots for two looks in a row."""

import pytest

from replication.flows.replicate.generations import LOOK_SECONDS, ModeWatch


@pytest.mark.parametrize(
    ("misfits", "ends_at"),
    [
        pytest.param([""] * 5, None, id="what runs fits"),
        pytest.param(["a", "b", "c", "d", "e"], LOOK_SECONDS, id="executors have come or gone"),
        pytest.param(["a", "", "a", "", "a"], None, id="executors replace each other"),
        pytest.param(["a", "", "a", "b", "c"], 3 * LOOK_SECONDS, id="one replaces, one goes"),
    ],
)
def test_what_no_longer_fits_is_noticed_at_the_second_look(
    misfits: list[str], ends_at: float | None
) -> None:
    looks = iter(misfits)
    watch = ModeWatch()

    ends = [second for second in range(25) if watch.misfit(lambda: next(looks), second)]

    assert ends[:1] == ([] if ends_at is None else [ends_at])
    assert next(looks, None) is None, "a look every few seconds"
