"""What an operator reads of offsets that a drain leaves behind an open transaction."""

import pytest

from replication.flows.replicate.open_transactions import describe_left
from replication.kafka.java_admin import OpenTransaction
from replication.model import Flow, TopicPartition

TP = TopicPartition("orders", 3)
SINCE = 1_764_151_200_000  # 2025-11-26 10:00:00 UTC


@pytest.mark.parametrize(
    ("owner", "whose"),
    [
        pytest.param(
            OpenTransaction(4001, SINCE + 60_000, "payments", SINCE),
            "behind an open transaction of payments (producer id 4001), since 2025-11-26 10:00:00",
            id="all is known",
        ),
        pytest.param(
            OpenTransaction(4001, SINCE),
            "of a transactional id that this user may not DESCRIBE (producer id 4001), with its "
            "last record of 2025-11-26 10:00:00 UTC",
            id="the transactional id is hidden",
        ),
        pytest.param(
            "allow Read on orders", "Whose is not known: allow Read on orders", id="refused"
        ),
    ],
)
def test_the_text_says_how_many_since_when_and_whose(
    owner: OpenTransaction | str, whose: str
) -> None:
    text = describe_left(Flow("A", "B"), TP, (20, 43), owner, "a:9092")

    assert "23 offsets of orders-3 on A, 20 to 42, are not copied" in text
    assert whose in text
    assert "--bootstrap-server a:9092 abort --topic orders --partition 3 --start-offset 20" in text
