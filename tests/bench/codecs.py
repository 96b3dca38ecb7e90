"""What it costs that copies keep the codec of their source, and what it saves: CPU and bytes.

A topic whose producer compresses by zstd is copied by this mirror, with and without
``replication.compression.type=source``, and by MirrorMaker 2, as it is and with its producer set to
zstd. Printed are the bytes of the copy, the speed and the CPU of the contender:

    .local/venv/bin/python -m tests.bench.codecs
    .local/venv/bin/python -m tests.bench.codecs --records 200000 --codec lz4
"""

import argparse
import os
import sys
import tempfile
from itertools import islice
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import Broker, BrokerSettings, two_clusters
from replication.demo.workload import create_topic, plain_records
from replication.kafka.cluster import Cluster
from tests.bench.load import Log, delete, into_page_cache
from tests.bench.options import new_parser
from tests.bench.peers import TARGET, Contender, Mirror, MirrorMaker2, Race, running
from tests.bench.throughput import Throughput, throughput
from tests.bench.usage import usage
from tests.support.topics import now_ms

PARTITIONS = 4
TOPIC = "filled"
FLUSH_SECONDS = 300.0


def main() -> int:
    """Prints the table."""
    options = _options()
    load = os.getloadavg()[0]
    table = Table(
        title=f"{options.records} records of {options.size} bytes; load before: {load:.1f}"
    )
    for heading in ("", "bytes of the copy", "of the source", "records/s", "CPU µs a record"):
        table.add_column(heading, justify="right" if heading else "left")
    settings = BrokerSettings(jars=home() / "jars" / "kafka")
    with (
        tempfile.TemporaryDirectory(prefix="codecs-") as name,
        two_clusters(Path(name, "brokers"), settings) as (source, target),
    ):
        _fill(source, options)
        whole = _bytes(source, TOPIC)
        for number, contender in enumerate(_contenders(options.codec)):
            race = Race(
                folder=Path(name, contender.name.replace(" ", "-")),
                source=f"s{number}",
                source_bootstrap=source.bootstrap,
                target_bootstrap=target.bootstrap,
                topic=TOPIC,
            )
            found = measure(contender, race, source, PARTITIONS, options.records)
            size = _bytes(target, race.remote_topic)
            delete(target.bootstrap, race.remote_topic)
            table.add_row(
                contender.name,
                f"{size:,}",
                f"{size / whole:.2f}",
                f"{found.records_per_second:,.0f}",
                f"{found.cpu_us_per_record:.2f}",
            )
    Console().print(table)
    return 0


def _contenders(codec: str) -> tuple[Contender, ...]:
    jars = home() / "jars" / "mm2"
    compressed = {"{target}.producer.compression.type": codec}
    return (
        Mirror(mode="microbatch", settings={}, label="mirror"),
        Mirror(
            mode="microbatch",
            settings={"replication.compression.type": "source"},
            label="mirror source",
        ),
        MirrorMaker2(jars=jars, settings={}, name="mm2"),
        MirrorMaker2(jars=jars, settings=compressed, name=f"mm2 {codec}"),
    )


def measure(
    contender: Contender, race: Race, source: Broker, partitions: int, records: int
) -> Throughput:
    """Lets *contender* copy the filled topic, and measures that."""
    cluster = Cluster(TARGET, {"bootstrap.servers": race.target_bootstrap})
    copy = Log(cluster, race.remote_topic, partitions)
    into_page_cache(source.folder / "data", race.topic)
    with cluster, running(contender, race) as process:
        return throughput(process, copy, records, lambda: usage(process.pid))


def _fill(broker: Broker, options: argparse.Namespace) -> None:
    """Fills the topic by a producer that compresses; the topic itself says nothing of a codec."""
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": options.codec,
            "linger.ms": 50,
            "batch.size": 262_144,
        }
    )
    stream = plain_records(PARTITIONS, size_bytes=options.size // 2, now_ms=now_ms())
    for number, record in enumerate(islice(stream, options.records)):
        value = record.value and os.urandom(options.size // 4).hex().encode() + record.value
        producer.produce(TOPIC, value, record.key, record.partition, timestamp=record.timestamp_ms)
        if number % 10_000 == 0:
            producer.poll(0)
            producer.flush(FLUSH_SECONDS)
    producer.flush(FLUSH_SECONDS)


def _bytes(broker: Broker, topic: str) -> int:
    files = (broker.folder / "data").glob(f"{topic}-*/*.log")
    return sum(file.stat().st_size for file in files)


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="records in the topic")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value")
    parser.add_argument("--codec", default="zstd", help="of the source's batches")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
