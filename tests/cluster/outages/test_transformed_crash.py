"""Crashes of a flow that drops and changes records: kill -9 in mid-batch, in every mode.

After the last crash a drain finishes the work. The target then holds what the source's records
become, once and in order, and the offset map is right for each of them.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.errors import FlowError
from replication.model import Mode, TopicPartition
from replication.offsets.map import OffsetMap
from tests.support.commands import spark_submit, start_mirror
from tests.support.gate.clock import Limit
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import kill_tree
from tests.support.stored import record_events, stored_runs
from tests.support.topics import send_records
from tests.support.transformed import SETTINGS, assert_transformed, people, unsafe_answers
from tests.support.waiting import Late

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1800)]

PARTITIONS = 2
BACKLOG_RECORDS = 140_000
START_SECONDS = 90.0
# A drain ends once it has caught up, so it comes first, while the backlog is large.
MODES: tuple[Mode, ...] = ("drain", "realtime", "microbatch")


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param(["realtime"], marks=pytest.mark.guarantee, id="realtime"),
        pytest.param(MODES, marks=pytest.mark.soak, id="every mode"),
        pytest.param([*MODES] * 2, marks=pytest.mark.soak, id="every mode twice"),
    ],
)
def test_crashes_lose_and_repeat_nothing_of_what_is_transformed(
    clusters: Clusters, tmp_path: Path, topic_name: str, modes: Sequence[Mode]
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    send_records(clusters[0], topic_name, islice(people(PARTITIONS), BACKLOG_RECORDS))
    more = {
        **SETTINGS,
        "groups": [f"{topic_name}.*"],  # other tests have groups on these clusters
        "replication.batch.max.records": 20_000,
        "replication.realtime.batch.seconds": 5,
    }
    config = write_config(tmp_path, clusters, topic_name, more)

    for number, mode in enumerate(modes, start=1):
        crash(config, mode, clusters, topic_name)
        start = BACKLOG_RECORDS + 7_000 * number
        send_records(clusters[0], topic_name, islice(people(PARTITIONS, start), 7_000))
    finished = spark_submit(config, "--mode", "drain")

    assert finished.returncode == 0, finished.stdout[-3000:]
    assert_transformed(clusters, topic_name, PARTITIONS)
    state = tmp_path / "state"
    assert record_events(state) == []
    for partition in range(PARTITIONS):
        runs = stored_runs(state, FLOW, TopicPartition(topic_name, partition))
        assert unsafe_answers(clusters, topic_name, partition, OffsetMap(runs)) == []


def crash(config: Path, mode: Mode, clusters: Clusters, topic: str) -> None:
    """Starts the mirror, and kills all its processes while it copies."""
    remote = f"A.{topic}"

    def copied() -> int:
        return sum(log_ends(clusters[1].bootstrap, [remote]).values())

    before, mirror = copied(), start_mirror(config, config.with_name("mirror.log"), "--mode", mode)
    try:
        limit = Limit(START_SECONDS)
        while copied() <= before:
            if limit.is_over:
                raise Late(f"nothing was copied; see {mirror.log}", limit)
            mirror.run_for(0.02)
        kill_tree(mirror.pid)
        with pytest.raises(FlowError, match="exit code -9"):
            mirror.run_for(10)
    finally:
        mirror.discard()
