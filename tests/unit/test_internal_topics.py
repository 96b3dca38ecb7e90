"""Existing internal topics that are not as MirrorMaker 2's clients need them."""

import pytest

from replication.mm2.policy import find_faults, find_letter_faults

POLICY = (
    "topic heartbeats has cleanup.policy=delete, so its cluster deletes records that its readers "
    "need; correct it with: kafka-configs --bootstrap-server b:1 --alter --entity-type topics "
    "--entity-name heartbeats --add-config cleanup.policy=compact"
)
PARTITIONS = (
    "topic heartbeats has 3 partitions, but only partition 0 is written and read; to have it "
    "created again with one, which loses its records, stop the mirror and run: kafka-topics "
    "--bootstrap-server b:1 --delete --topic heartbeats"
)


@pytest.mark.parametrize(
    ("partitions", "policy", "expected"),
    [
        pytest.param(1, "compact", [], id="as it must be"),
        pytest.param(1, None, [], id="the policy is unknown"),
        pytest.param(1, "delete", [POLICY], id="its records expire"),
        pytest.param(3, "compact", [PARTITIONS], id="too many partitions"),
        pytest.param(3, "delete", [POLICY, PARTITIONS], id="both"),
    ],
)
def test_each_fault_comes_with_the_command_that_corrects_it(
    partitions: int, policy: str | None, expected: list[str]
) -> None:
    assert list(find_faults("heartbeats", partitions, policy, "b:1")) == expected


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_topic_of_dead_letters_must_not_be_compacted(policy: str) -> None:
    (fault,) = find_letter_faults("dead", policy, "b:1")

    assert fault.startswith(f"topic dead has cleanup.policy={policy}, so its cluster deletes dead")
    assert fault.endswith("--entity-name dead --add-config cleanup.policy=delete")
    assert list(find_letter_faults("dead", "delete", "b:1")) == []
    assert list(find_letter_faults("dead", None, "b:1")) == []
