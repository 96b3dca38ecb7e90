"""The text of a refusal names the command that accepts it."""

import pytest

from replication.flows.replicate.choose import refusal_errors
from replication.model import Flow, TopicPartition
from replication.offsets.guard import Refusal

COMMAND = "python -m replication accept FILE --flow 'A->B' --topic t"


def refusal(restart: int) -> Refusal:
    return Refusal(
        "records-expired", "gone", 0, 99, 50, replicated=40, skip=restart, restart=restart
    )


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        pytest.param(
            {TopicPartition("t", 7): refusal(42)},
            f"t-7: gone\n    To go on: {COMMAND} --partition 7 --from 42",
            id="one partition",
        ),
        pytest.param(
            {TopicPartition("t", 7): refusal(42), TopicPartition("t", 1): refusal(5)},
            f"t-1: gone\n    t-7: gone\n    To go on: {COMMAND} --from earliest",
            id="two partitions",
        ),
    ],
)
def test_a_refusal_names_the_command_that_accepts_it(
    refused: dict[TopicPartition, Refusal], expected: str
) -> None:
    errors = refusal_errors(Flow("A", "B"), refused)

    assert {topic: str(error) for topic, error in errors.items()} == {"t": expected}
