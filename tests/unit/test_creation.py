"""Topics are created in requests that a controller accepts."""

import pytest

from replication.kafka.cluster import RECORDS_AT_ONCE, requests
from replication.model import NewTopic


@pytest.mark.parametrize(
    ("partitions", "groups"),
    [
        pytest.param([], [], id="nothing to create"),
        pytest.param([10, 10], [2], id="few partitions"),
        pytest.param([10, 10_000, 10], [1, 1, 1], id="a topic of many partitions is alone"),
        pytest.param([9] * 450, [200, 200, 50], id="many topics"),
    ],
)
def test_no_request_is_too_large(partitions: list[int], groups: list[int]) -> None:
    topics = [NewTopic(f"t{number}", count, 1) for number, count in enumerate(partitions)]

    made = list(requests(topics))

    assert [len(group) for group in made] == groups
    assert [topic for group in made for topic in group.values()] == topics


def test_settings_count_as_well() -> None:
    configs = tuple((f"key-{number}", "value") for number in range(RECORDS_AT_ONCE // 2))
    topics = [NewTopic(name, 1, 1, configs) for name in ("a", "b")]

    assert [list(group) for group in requests(topics)] == [["a"], ["b"]]
