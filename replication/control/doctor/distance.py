"""How far away a cluster is, and whether the sockets of its brokers let that distance be filled."""

from collections.abc import Mapping
from typing import Final

from replication.control.doctor.brokers import AskedCluster
from replication.control.doctor.judgement import Judgement
from replication.kafka.cluster import Cluster

FAR_S: Final = 0.02
LOOKS: Final = 5
"""So many times a cluster is asked that seems to be far away: this machine may be busy."""

SENT: Final = "socket.send.buffer.bytes"
RECEIVED: Final = "socket.receive.buffer.bytes"
ENOUGH: Final = 50_000_000
"""Bytes a second of one connection, below which a row warns."""

MEGA: Final = 1e6


def look_at_distance(asked: AskedCluster, cluster: Cluster) -> Judgement:
    """Measures how long the smallest question takes, and reads what the brokers' sockets hold.

    Raises:
        CallError: The cluster does not answer.
    """
    seconds = cluster.round_trip_s()
    for _ in range(1, LOOKS):
        if seconds < FAR_S:
            break
        seconds = min(seconds, cluster.round_trip_s())
    settings = cluster.broker_settings() if seconds >= FAR_S else {}
    return judge_distance(asked, seconds, settings)


def judge_distance(asked: AskedCluster, seconds: float, settings: Mapping[str, str]) -> Judgement:
    """Returns what follows from a round trip of so many *seconds*.

    Args:
        asked: The cluster. Brokers of a source send records, those of a target receive them.
        seconds: Of the round trip.
        settings: Of a broker, as far as this user may see them.
    """
    what, found = f"distance to {asked.alias}", f"a small request takes {1000 * seconds:.0f} ms"
    used = [
        key for key, is_used in ((SENT, asked.is_source), (RECEIVED, asked.is_target)) if is_used
    ]
    small = {
        key: int(settings[key])
        for key in used
        if key in settings and 0 <= int(settings[key]) < ENOUGH * seconds
    }
    if seconds < FAR_S or not small:
        return Judgement(what=what, found=found)
    most = min(small.values()) / seconds / MEGA
    values = " and ".join(f"{key}={value}" for key, value in small.items())
    return Judgement(
        what=what,
        found=f"{found}, and {values} lets a connection carry about {most:.1f} MB/s",
        verdict="warning",
        next_step=f"set {' and '.join(f'{key}=-1' for key in small)} in server.properties of the "
        f"brokers of {asked.alias} and restart them one by one, so that their kernels size the "
        "buffers by the distance; see conf/docs/distance.md",
    )
