"""What `doctor` says of a cluster that is far away."""

from collections.abc import Mapping

import pytest

from replication.features.doctor.clusters import AskedCluster, judge_distance

SENT = {"socket.send.buffer.bytes": "102400", "socket.receive.buffer.bytes": "-1"}
RECEIVED = {"socket.send.buffer.bytes": "-1", "socket.receive.buffer.bytes": "204800"}


def asked(*, is_source: bool) -> AskedCluster:
    return AskedCluster(alias="A", admin={}, is_source=is_source, is_target=not is_source)


@pytest.mark.parametrize(
    ("is_source", "seconds", "settings", "text"),
    [
        (True, 0.1, SENT, "socket.send.buffer.bytes=102400 lets a connection carry about 1.0 MB/s"),
        (False, 0.1, RECEIVED, "socket.receive.buffer.bytes=204800"),
        (True, 0.02, SENT, "about 5.1 MB/s"),
    ],
)
def test_small_sockets_far_away_are_a_warning(
    *, is_source: bool, seconds: float, settings: Mapping[str, str], text: str
) -> None:
    found = judge_distance(asked(is_source=is_source), seconds, settings)

    assert found.verdict == "warning"
    assert text in found.found
    assert "=-1 in server.properties of the brokers of A" in found.next_step


@pytest.mark.parametrize(
    ("is_source", "seconds", "settings"),
    [
        pytest.param(True, 0.001, SENT, id="near"),
        pytest.param(False, 0.1, SENT, id="a target's brokers send little"),
        pytest.param(True, 0.1, RECEIVED, id="a source's brokers receive little"),
        pytest.param(True, 0.1, {"socket.send.buffer.bytes": "16777216"}, id="large enough"),
        pytest.param(True, 0.1, {}, id="unseen"),
    ],
)
def test_all_else_is_told_without_a_warning(
    *, is_source: bool, seconds: float, settings: Mapping[str, str]
) -> None:
    found = judge_distance(asked(is_source=is_source), seconds, settings)

    assert found.verdict == "ok"
    assert f"{1000 * seconds:.0f} ms" in found.found
