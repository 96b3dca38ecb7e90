"""What `serve` remembers of the last hours: as little as it can, and nothing else than was seen."""

import time
import tracemalloc
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replication.figures.observation import Observation, TopicFigures
from replication.model import Flow
from replication.serve.snapshots import FIGURES, MOST_TOPICS, REMEMBERED, Memory

LOOK = Observation(Flow("A", "B"), 0.0, "running", 0.0)
LOOKS = 50
BYTES = MOST_TOPICS * len(REMEMBERED) * 8
"""What the figures of one look are."""

figures = st.dictionaries(st.sampled_from(REMEMBERED), st.floats(0.5, 1e12))
looks = st.lists(
    st.tuples(figures, st.dictionaries(st.sampled_from(["a", "b", "c"]), figures)), max_size=8
)


def topic(name: str, values: dict[str, float]) -> TopicFigures:
    return TopicFigures(name, None, "copying", "", values)


def some_topics(value: float) -> tuple[TopicFigures, ...]:
    names = (f"orders-{number}" for number in range(MOST_TOPICS))
    return tuple(topic(name, dict.fromkeys(REMEMBERED, value)) for name in names)


@given(looks)
def test_each_value_is_as_it_was_seen(
    seen: list[tuple[dict[str, float], dict[str, dict[str, float]]]],
) -> None:
    memory, begin = Memory(), time.time()
    for number, (own, topics) in enumerate(seen):
        some = tuple(topic(name, values) for name, values in topics.items())
        memory.add(replace(LOOK, as_of=begin + number, figures=own, topics=some))
        memory.add(replace(LOOK, as_of=begin + number, figures={}))  # seen before

    for figure in FIGURES:
        of_flow = [own.get(figure) for own, _ in seen]
        assert [value for _, value in memory.points(figure, None, 0)] == of_flow
        for name in "abc":
            expected = [topics.get(name, {}).get(figure) for _, topics in seen]
            assert [value for _, value in memory.points(figure, name, 0)] == expected
    assert len(memory.points("lag_seconds", None, begin + 2)) == max(0, len(seen) - 2)


def test_the_quantiles_of_a_look_are_remembered() -> None:
    memory, recent = Memory(), {"latency_seconds": {"p50": 0.02, "p99": 0.5, "max": 0.7}}
    memory.add(replace(LOOK, as_of=time.time(), quantiles=recent))

    for figure, expected in {"latency_p50": 0.02, "latency_p99": 0.5, "latency_max": 0.7}.items():
        ((_, value),) = memory.points(figure, None, 0)
        assert value == expected


def test_hours_of_many_topics_are_little_more_than_their_numbers() -> None:
    memory, begin = Memory(), time.time()
    tracemalloc.start()
    try:
        for number in range(LOOKS):
            memory.add(replace(LOOK, as_of=begin + number, topics=some_topics(1.5 + number)))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used < LOOKS * BYTES * 1.2 + 1_000_000
