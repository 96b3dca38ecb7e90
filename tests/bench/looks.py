"""How long looks at the leaders of a cluster's partitions take, which each write of the map has.

The first question is which epochs they have. The second, which only follows for leaders that are
new, is up to where their logs are those of earlier leaders; here it is about all partitions:

    .local/venv/bin/python -m tests.bench.looks                                     # 1000 of them
"""

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

from rich.console import Console

from replication.config.home import home
from replication.demo.brokers import Broker, BrokerSettings, running
from replication.demo.workload import create_topic, plain_records, sending
from replication.kafka.cluster import Cluster
from replication.kafka.java_admin import parted_at
from replication.model import TopicPartition
from replication.offsets.runs import Stamp
from tests.bench.many import broker_heap_mb, raise_file_limit
from tests.bench.options import new_parser, positive

TOPIC = "numbers"
EACH = 10


def main() -> int:
    """Prints the least, the median and the greatest of the times."""
    parser = new_parser(__doc__)
    parser.add_argument("--partitions", type=positive, default=1000, help="of one topic")
    parser.add_argument("--turns", type=positive, default=20, help="of each question")
    options = parser.parse_args()
    raise_file_limit(options.partitions)
    heap_mb = broker_heap_mb(options.partitions)
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=heap_mb)
    with tempfile.TemporaryDirectory(prefix="looks-") as name:
        broker = Broker("looks", Path(name, "broker"), brokers)
        with running(broker):
            create_topic(broker.bootstrap, TOPIC, options.partitions)
            records = plain_records(options.partitions, size_bytes=100, now_ms=0)
            with sending(broker.bootstrap) as sender:
                for _ in range(EACH):
                    sender.send_all(TOPIC, islice(records, options.partitions))
            consumer = {"bootstrap.servers": broker.bootstrap}
            cluster = Cluster("A", consumer, prefers_java=True)
            partitions = [TopicPartition(TOPIC, number) for number in range(options.partitions)]
            epochs = cluster.leader_epochs(partitions)
            stamps = {tp: Stamp(EACH, epoch) for tp, epoch in epochs.items()}
            assert parted_at(consumer, stamps) == dict.fromkeys(partitions, EACH)
            _time("epochs of leaders", options.turns, lambda: cluster.leader_epochs(partitions))
            _time("ends of epochs", options.turns, lambda: parted_at(consumer, stamps))
    return 0


def _time(what: str, turns: int, ask: Callable[[], object]) -> None:
    times = []
    for _ in range(turns):
        began = time.monotonic()
        ask()
        times.append(1000 * (time.monotonic() - began))
    least, greatest = min(times), max(times)
    Console().print(f"{what}: {median(times):.0f} ms ({least:.0f} to {greatest:.0f})")


if __name__ == "__main__":
    sys.exit(main())
