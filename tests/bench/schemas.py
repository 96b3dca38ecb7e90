"""How long a flow waits for schema registries with thousands of subjects and a limit of requests.

Two brokers, a topic for each subject with a few records of it, and two registries of our own that
answer 429 with ``Retry-After`` beyond the limit. The mirror is started as a user starts it:

    .local/venv/bin/python -m tests.bench.schemas                          # 2000, 50 requests/s
    .local/venv/bin/python -m tests.bench.schemas --schemas preserve
    .local/venv/bin/python -m tests.bench.schemas --schemas none            # what the rest takes
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from rich.console import Console

from replication.config.home import home
from replication.config.schema_settings import SchemasMode
from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.workload import sending
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from tests.bench.many import ManyTopics, broker_heap_mb, pause, raise_file_limit
from tests.bench.options import add_setting_option, assignments, new_parser, positive
from tests.bench.peers import MODES, Mirror, Race, running
from tests.support.framed import records, schema
from tests.support.local import Clusters
from tests.support.schema_registry import FakeRegistry, fake_registry, keys

WAIT_SECONDS = 1200.0
EACH = 10


def main() -> int:
    """Prints the seconds from the start to the first copied record, and to all."""
    options = _options()
    raise_file_limit(options.topics)
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", heap_mb=broker_heap_mb(options.topics))
    with (
        tempfile.TemporaryDirectory(prefix="schemas-") as name,
        two_clusters(Path(name, "brokers"), brokers) as clusters,
        fake_registry() as source,
        fake_registry() as target,
    ):
        try:
            _measure(Path(name, "mirror"), clusters, (source, target), options)
        finally:
            if options.log:
                log = Path(name, "mirror", "log")
                options.log.write_text(log.read_text(errors="replace"))
    return 0


def _measure(
    folder: Path,
    clusters: Clusters,
    registries: tuple[FakeRegistry, FakeRegistry],
    options: argparse.Namespace,
) -> None:
    source, target = registries
    topics = [f"many-{number}" for number in range(options.topics)]
    ManyTopics(clusters, ["A"], topics, 1).create()
    with sending(clusters[0].bootstrap) as sender:
        for topic in topics:
            for record in records(source, f"{topic}-value", topic.title(), range(EACH)):
                sender.send(topic, record)
    for number in range(options.subjects - options.topics):
        source.register(f"other-{number}-value", schema(f"Other{number}"))
    target.register("elsewhere-value", schema("Elsewhere"))  # so that ids differ
    if options.schemas == "preserve":
        target.contexts.clear()
    source.limit = target.limit = options.limit
    race = Race(
        folder=folder,
        source="A",
        source_bootstrap=clusters[0].bootstrap,
        target_bootstrap=clusters[1].bootstrap,
        topic="many-.*",
    )
    own = {}
    if options.schemas != "none":
        own = keys(source, target, options.schemas, "many-.*")
    named = {key.replace("B.", "{target}."): value for key, value in own.items() if value}
    mirror = Mirror(mode=options.mode, settings={**named, **assignments(options.set)})
    copies = [TopicPartition(f"A.{topic}", 0) for topic in topics]
    first, all_ = 0.0, len(topics) * EACH
    began = time.monotonic()
    with (
        running(mirror, race) as process,
        Cluster("B", {"bootstrap.servers": clusters[1].bootstrap}) as cluster,
    ):
        while (count := sum(cluster.log_ends(copies).values())) < all_:
            if count and not first:
                first = time.monotonic() - began
                Console().print(f"the first records were copied after {first:.1f} s")
            pause(process, began + WAIT_SECONDS)
        Console().print(f"all {all_} after {time.monotonic() - began:.1f} s")
        while own and len(target.context.subjects) < options.topics:
            pause(process, began + WAIT_SECONDS)
        Console().print(f"all schemas were registered after {time.monotonic() - began:.1f} s")
    asked = f"{len(source.asked)} at the source, {len(target.asked)} at the target"
    Console().print(f"requests, refused ones with them: {asked}")


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--subjects", type=positive, default=2000, help="of the source's registry")
    parser.add_argument("--topics", type=positive, default=2000, help="with such a subject each")
    parser.add_argument("--limit", type=int, default=50, help="requests/s of a registry; 0 none")
    parser.add_argument("--schemas", choices=get_args(SchemasMode), default="translate")
    parser.add_argument("--mode", choices=MODES, default="realtime", help="of the mirror")
    add_setting_option(parser)
    parser.add_argument("--log", type=Path, help="a file for the mirror's log")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
