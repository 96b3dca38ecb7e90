"""What is set aside for a decision names the command that decides it."""

import pytest

from replication.errors import FlowError
from replication.flows.replicate.choose import bad_record_errors, refusal_errors
from replication.model import Flow, TopicPartition
from replication.offsets.guard import Refusal
from replication.positions.expire import BadRecord

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


@pytest.mark.parametrize(
    ("bad", "skipped"),
    [
        pytest.param({7: 42}, (7, 42), id="one record"),
        pytest.param({7: 42, 1: 5, 2: None}, (1, 5), id="the first whose offset is known"),
        pytest.param({2: None}, None, id="a damaged batch"),
    ],
)
def test_a_record_that_cannot_be_copied_names_the_command_that_skips_it(
    bad: dict[int, int | None], skipped: tuple[int, int] | None
) -> None:
    found = {TopicPartition("t", n): BadRecord(f"t-{n}: no", at) for n, at in bad.items()}

    (error,) = bad_record_errors(Flow("A", "B"), found).values()

    part = f"--topic t --partition {skipped[0]} --offset {skipped[1]}" if skipped else ""
    command = f"python -m replication skip FILE --flow 'A->B' {part}" if skipped else ""
    assert (error.command, error.exit_code) == (command, FlowError.exit_code)
    assert error.partitions == len(bad)
    assert str(error) == "\n    ".join(f"t-{number}: no" for number in sorted(bad))
