"""What a transform costs: CPU of a record on top of a plain copy, for each kind, and MM2's own.

The topic holds JSON of some 240 bytes with two headers. No filter drops anything, so that all copy
as many records. MirrorMaker 2 runs the transforms of Kafka that work on bytes:

    .local/venv/bin/python -m tests.bench.transforms --rounds 5
    .local/venv/bin/python -m tests.bench.transforms --only plain,"mask of a value"
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import Broker, BrokerSettings, two_clusters
from replication.demo.workload import create_topic
from tests.bench.codecs import measure
from tests.bench.load import delete
from tests.bench.options import chosen_from, new_parser, positive
from tests.bench.peers import MODES, Contender, Mirror, MirrorMaker2, Race
from tests.bench.throughput import Throughput
from tests.support.topics import now_ms

PARTITIONS: Final = 8
TOPIC: Final = "filled"
FLUSH_SECONDS: Final = 300.0
HEADERS: Final[list[tuple[str, str | bytes]]] = [("trace", b"4bf92f3577b34da6"), ("origin", b"eu")]
VALUE: Final = (
    '{"id":%d,"region":"eu","email":"somebody.else@example.org","amount":%d,"lines":[{"sku":"A-1",'
    '"count":3},{"sku":"B-7","count":1}],"note":"left at the door, as the customer has asked for"}'
)
PLAIN: Final = "plain"

_JSON: Final = "from_json(cast(value AS string), 'id bigint, region string, email string')"
SQL: Final[Mapping[str, Mapping[str, str]]] = {
    PLAIN: {},
    "header added": {"headers.add.flow": "cast(topic AS binary)"},
    "header dropped": {"headers.remove": "trace"},
    "filter by a header": {"filter": "exists(headers, h -> h.key = 'origin')"},
    "filter by JSON": {"filter": "get_json_object(cast(value AS string), '$.region') = 'eu'"},
    "hash of a key": {"key": "cast(sha2(key, 256) AS binary)"},
    "mask of a value": {
        "value": 'cast(regexp_replace(cast(value AS string), \'"email":"[^"]*"\', '
        '\'"email":"***"\') AS binary)'
    },
    "JSON written anew": {"value": f"cast(to_json({_JSON}) AS binary)"},
}
_KAFKA: Final = "org.apache.kafka.connect.transforms"
CHAINS: Final[Mapping[str, Mapping[str, str]]] = {
    "mm2": {},
    "mm2 InsertHeader": {
        "transforms": "x",
        "transforms.x.type": f"{_KAFKA}.InsertHeader",
        "transforms.x.header": "flow",
        "transforms.x.value.literal": "null",
    },
    "mm2 DropHeaders": {
        "transforms": "x",
        "transforms.x.type": f"{_KAFKA}.DropHeaders",
        "transforms.x.headers": "trace",
    },
    "mm2 Filter": {
        "transforms": "x",
        "transforms.x.type": f"{_KAFKA}.Filter",
        "transforms.x.predicate": "other",
        "predicates": "other",
        "predicates.other.type": f"{_KAFKA}.predicates.HasHeaderKey",
        "predicates.other.name": "nobody-has-this",
    },
}
NAMES: Final = (*SQL, *CHAINS)


def main() -> int:
    """Prints the table."""
    options = _options()
    load, found = os.getloadavg()[0], dict[str, list[Throughput]]()
    settings = BrokerSettings(jars=home() / "jars" / "kafka")
    with (
        tempfile.TemporaryDirectory(prefix="transforms-") as name,
        two_clusters(Path(name, "brokers"), settings) as (source, target),
    ):
        _fill(source, options.records)
        for turn in range(options.rounds):
            for kind in options.only if turn % 2 == 0 else reversed(options.only):
                contender = _contender(kind, options.mode)
                alias = f"s{turn}x{NAMES.index(kind)}"
                ends = (source.bootstrap, target.bootstrap)
                race = Race(
                    folder=Path(name, alias),
                    source=alias,
                    source_bootstrap=ends[0],
                    target_bootstrap=ends[1],
                    topic=TOPIC,
                )
                one = measure(contender, race, source, PARTITIONS, options.records)
                delete(target.bootstrap, race.remote_topic)
                found.setdefault(kind, []).append(one)
    Console().print(_table(found, options, load))
    return 0


def _contender(kind: str, mode: str) -> Contender:
    if kind in CHAINS:
        chain = {f"{{source}}->{{target}}.{key}": value for key, value in CHAINS[kind].items()}
        return MirrorMaker2(jars=home() / "jars" / "mm2", settings=chain, name="mm2")
    own = {f"replication.transforms.x.{key}": value for key, value in SQL[kind].items()}
    given = {"replication.transforms": "x", "replication.transforms.x.topics": TOPIC, **own}
    wanted = next(known for known in MODES if known == mode)
    return Mirror(mode=wanted, settings=given if own else {}, label="mirror")


def _table(
    found: Mapping[str, list[Throughput]], options: argparse.Namespace, load: float
) -> Table:
    table = Table(
        title=f"{options.records} records, {PARTITIONS} partitions, {options.mode}; median of "
        f"{options.rounds} (least to greatest); load before: {load:.1f}"
    )
    for heading in ("", "records/s", "CPU µs a record", "more than plain"):
        table.add_column(heading, justify="right" if heading else "left")
    middle = {kind: median(one.cpu_us_per_record for one in of) for kind, of in found.items()}
    for kind, of in found.items():
        cpu = [one.cpu_us_per_record for one in of]
        plain = middle.get("mm2" if kind in CHAINS else PLAIN)
        table.add_row(
            kind,
            f"{median(one.records_per_second for one in of):,.0f}",
            f"{middle[kind]:.2f} ({min(cpu):.2f} to {max(cpu):.2f})",
            "" if plain is None else f"{middle[kind] - plain:+.2f}",
        )
    return table


def _fill(broker: Broker, records: int) -> None:
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "batch.size": 262_144}
    )
    for number in range(records):
        value, key = VALUE % (number, number % 997), b"%d" % (number % 10_007)
        producer.produce(
            TOPIC, value, key, number % PARTITIONS, timestamp=now_ms(), headers=HEADERS
        )
        if number % 10_000 == 0:
            producer.flush(FLUSH_SECONDS)
    producer.flush(FLUSH_SECONDS)


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--records", type=positive, default=1_000_000, help="in the topic")
    parser.add_argument("--rounds", type=positive, default=1, help="of all kinds")
    parser.add_argument("--mode", choices=("realtime", "microbatch"), default="realtime")
    parser.add_argument("--only", type=chosen_from(NAMES), default=list(NAMES), metavar="KIND,...")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
