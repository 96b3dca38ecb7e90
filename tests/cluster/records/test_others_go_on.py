"""A topic whose records cannot be copied does not hold up the others of its query."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.topic_log import TopicLog
from replication.demo.workload import PacedProducer, ProducedRecord, create_topic
from replication.model import Mode
from tests.support.events import kinds_of_topics, restarts
from tests.support.flows import RunningFlow, flow_config
from tests.support.letters import LIMIT, keys, letter_settings, numbered, too_large
from tests.support.local import Clusters
from tests.support.topics import copied, now_ms, plain, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]

log = logging.getLogger(__name__)

PARTITIONS = 2
NO_NUMBER = ProducedRecord(partition=0, key=b"bad", value=b"none", timestamp_ms=now_ms())
NUMBERS_ONLY = "cast(cast(cast(cast(value as string) as int) as string) as binary)"


class Others:
    """A topic that is sent to all the time, and whose copies have the target's times."""

    def __init__(self, clusters: Clusters, topic: str) -> None:
        create_topic(clusters[0].bootstrap, topic, PARTITIONS)
        appended = {"message.timestamp.type": "LogAppendTime"}
        create_topic(clusters[1].bootstrap, f"A.{topic}", PARTITIONS, appended)
        self._clusters, self.topic = clusters, topic
        topics = {topic: plain(PARTITIONS)}
        self._feeder = PacedProducer(clusters[0].bootstrap, topics, records_per_second=50)
        self._feeder.start()

    def go_on(self, flow: RunningFlow) -> None:
        """Waits for more of their copies."""
        before = copied(self._clusters, self.topic)
        flow.until(lambda: copied(self._clusters, self.topic) > before + 20)

    def end(self, flow: RunningFlow) -> None:
        sent = self._feeder.finish()[self.topic]
        flow.until(lambda: copied(self._clusters, self.topic) >= sent)
        flow.stop()
        assert Counter(_values(self._clusters[1], f"A.{self.topic}")) == Counter(
            _values(self._clusters[0], self.topic)
        )

    def longest_gaps(self, times: Sequence[int]) -> list[int]:
        """The longest pause, in milliseconds, between each two of *times*."""
        log = TopicLog(self._clusters[1].bootstrap, f"A.{self.topic}", "read_committed")
        at = sorted(one.content.timestamp_ms for n in range(PARTITIONS) for one in log.records(n))
        return [
            max(after - before for before, after in pairwise(at) if after > start and before < end)
            for start, end in pairwise(times)
        ]


def _values(broker: Broker, topic: str) -> list[bytes | None]:
    log = TopicLog(broker.bootstrap, topic, "read_committed")
    return [one.content.value for n in range(PARTITIONS) for one in log.records(n)]


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
@pytest.mark.parametrize("cause", ["transform", "target"])
def test_each_bad_record_gets_its_letter_while_the_others_are_copied(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    cause: str,
    mode: Mode,
) -> None:
    """The first one ends the query that it shares with them, and each later one its own."""
    source, target = clusters
    odd, bad = f"{topic_name}-odd", too_large()
    settings = letter_settings(topic_name, "topic")
    if cause == "transform":
        bad, start = NO_NUMBER, "replication.transforms.number"
        settings |= {"replication.transforms": "number", f"{start}.topics": odd}
        settings |= {f"{start}.value": NUMBERS_ONLY}
    others = Others(clusters, f"{topic_name}-others")
    create_topic(source.bootstrap, odd, 1)
    create_topic(target.bootstrap, f"A.{odd}", 1, {LIMIT: "100000"})
    send_records(source, odd, numbered(1))
    flow = RunningFlow(spark, tmp_path, flow_config(*clusters, f"{topic_name}-.*", settings), mode)
    flow.until(lambda: copied(clusters, odd) == 1)
    others.go_on(flow)

    def has_letters(count: int) -> bool:
        return kinds_of_topics(flow.tables) == [("dead-letter", odd)] * count

    def has_more_than(count: int) -> bool:
        return copied(clusters, odd) > count

    times, queries = [now_ms()], set[int]()
    for _ in range(3):
        others.go_on(flow)
    times.append(now_ms())
    for sent in (1, 2, 3):
        send_records(source, odd, [bad])
        flow.until(partial(has_letters, sent), 120)
        send_records(source, odd, numbered(1))
        flow.until(partial(has_more_than, sent))
        others.go_on(flow)
        times.append(now_ms())
        queries.add(flow.context.metrics.look().copying.generations[0])
    others.end(flow)
    calm, *gaps = others.longest_gaps(times)
    log.info("%s in %s: the others paused for %s ms, before for %d", cause, mode, gaps, calm)

    assert len(keys(target, f"dead-{topic_name}")) == 3
    assert keys(target, f"A.{odd}") == [b"1"] * 4
    assert len(queries) == 1, "the first bad record has ended the others' query, and no later one"
    assert restarts(flow.tables) == []
