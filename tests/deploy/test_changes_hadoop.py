"""Changes of a running flow, and positions to move, as objects on S3 and HDFS."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from replication.config.changes import Change
from replication.config.state_access import StateAccess
from replication.foreign_json import to_json
from replication.model import Flow, Position, TopicPartition
from replication.offsets.guard import Accepted
from replication.offsets.moved import Moving
from replication.state.change_files import Applied, open_changes
from replication.state.requests import (
    AcceptRequest,
    MoveRequest,
    ask_owner,
    open_channel,
    pending_acceptances,
    pending_moves,
)
from tests.support.hadoop import mini_hadoop
from tests.support.s3 import BUCKET, s3_server

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FLOW = Flow("A", "B")
MADE = Change(FLOW, "pause", ("orders",), by="ann@desk", at="2026-11-26T19:00:00.000Z")


@pytest.fixture(params=["s3", "hdfs"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StateAccess]:
    """A state directory there."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "s3":
        with s3_server(folder) as settings:
            yield StateAccess(f"s3a://{BUCKET}/state", settings)
        return
    with mini_hadoop(folder) as hadoop, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", hadoop.environment["HADOOP_CONF_DIR"])
        yield StateAccess(f"{hadoop.uri}/state")


def test_changes_are_written_read_and_collected(access: StateAccess) -> None:
    with open_changes(access, [FLOW]) as writers, open_changes(access, [FLOW]) as readers:
        writer, reader = writers[FLOW], readers[FLOW]
        assert reader.read().changes == ()
        made = [writer.write(replace(MADE, items=(f"t{number}",))) for number in range(4)]
        half = f"{access.state_dir}/_control/change-A-to-B@{9:010d}-{'0' * 32}"
        writer.files.create(half, json.dumps(to_json(MADE))[:20])

        assert list(reader.read().changes) == made
        assert list(reader.unread) == [half]
        before = writer.read()
        assert writer.collect(3) == 4
        assert reader.read() == before
        names = frozenset(change.name for change in made)
        for generation in (1, 2):
            writer.publish(Applied(4, names, "host", "now", generation))
        applied = reader.applied()

    assert applied is not None
    assert (applied.names, applied.generation) == (names, 2)
    with open_changes(access, [FLOW]) as fresh:
        assert list(fresh[FLOW].read().changes) == made
        found = fresh[FLOW].files.find(f"{access.state_dir}/_control/")
    kinds = sorted(path.rpartition("/")[2].partition("-")[0] for path in found)
    assert kinds == ["applied", "base", "change"], "the half-written one stays"


def test_what_waits_for_the_next_start_is_seen(access: StateAccess) -> None:
    other, tp = Flow("A", "C"), TopicPartition("orders", 3)
    moves = [Moving(to, Position(20, 9), "id-1") for to in (17, 4)]
    with open_channel(access) as channel:
        nothing = pending_moves(channel, other), pending_acceptances(channel, other)
    for moving in moves:
        ask_owner(access, other, [MoveRequest(tp, moving)], "CHG-117")
    ask_owner(access, other, [AcceptRequest("clicks", "id-2", (0,), "latest")])

    with open_channel(access) as channel:
        (found,) = pending_moves(channel, other).values()
        accepted = pending_acceptances(channel, other)
        of_another = pending_moves(channel, FLOW)

    assert (nothing, of_another) == (({}, {}), {})
    assert (found.partition, found.moving) == (tp, moves[-1])
    assert found.request.reason == "CHG-117"
    assert accepted == {TopicPartition("clicks", 0): Accepted("latest", "id-2")}
