"""A generation ends when another mode fits the task slots for two looks in a row."""

import pytest

from replication.flows.replicate.mode_watch import ModeWatch
from replication.model import Mode


@pytest.mark.parametrize(
    ("mode", "fits", "ends_at"),
    [
        pytest.param("microbatch", ["microbatch"] * 5, None, id="the mode fits"),
        pytest.param("microbatch", ["realtime"] * 5, 5, id="executors have come"),
        pytest.param("realtime", ["microbatch"] * 5, 5, id="executors have gone"),
        pytest.param(
            "realtime",
            ["microbatch", "realtime", "microbatch", "realtime", "microbatch"],
            None,
            id="executors replace each other",
        ),
    ],
)
def test_a_mode_that_fits_no_longer_is_noticed_both_ways(
    mode: Mode, fits: list[Mode], ends_at: int | None
) -> None:
    fitting = iter(fits)
    watch = ModeWatch(lambda: next(fitting))

    ends = [second for second in range(25) if watch.has_changed(mode, second)]

    assert ends[:1] == ([] if ends_at is None else [ends_at])


def test_a_configured_mode_is_not_watched() -> None:
    assert not any(ModeWatch(None).has_changed("realtime", second) for second in range(60))
