"""The positions of MirrorMaker 2 are read from what Kafka Connect stores, and nothing else is."""

import pytest

from replication.mm2.wire import stored_position
from replication.model import TopicPartition

KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
TP = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(KEY, b'{"offset":41}', (TP, 42), id="the next offset is one further"),
        pytest.param(KEY, b'{"offset":0}', (TP, 1), id="the first record"),
        pytest.param(KEY, None, (TP, None), id="reset"),
        pytest.param(KEY, b'{"offset":"41"}', (TP, None), id="no number"),
        pytest.param(KEY, b"\xff", (TP, None), id="no JSON"),
        pytest.param(
            KEY.replace(b"MirrorSourceConnector", b"A->B.MirrorSourceConnector"),
            b'{"offset":41}',
            (TP, 42),
            id="Strimzi's name of the connector",
        ),
        pytest.param(KEY.replace(b'"A"', b'"C"'), b'{"offset":41}', None, id="another source"),
        pytest.param(
            b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]',
            b'{"offset":0}',
            None,
            id="the checkpoint connector's",
        ),
        pytest.param(
            b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
            b'{"offset":0}',
            None,
            id="the heartbeat connector's",
        ),
        pytest.param(b'["x",{"cluster":"A","partition":true,"topic":"t"}]', b"{}", None, id="flag"),
        pytest.param(b"[]", b"{}", None, id="empty"),
        pytest.param(b"[" * 100_000, b"{}", None, id="deep"),
        pytest.param(None, None, None, id="nothing"),
    ],
)
def test_what_a_record_says(
    key: bytes | None, value: bytes | None, expected: tuple[TopicPartition, int | None] | None
) -> None:
    assert stored_position("A", key, value) == expected
