"""The command line of the benchmark."""

import argparse
from collections.abc import Callable, Collection, Sequence

from tests.bench.cases import case
from tests.bench.latency import SMALLEST_BYTES
from tests.bench.load import CONTENT
from tests.bench.peers import MODES


def parsed(arguments: Sequence[str], description: str) -> argparse.Namespace:
    """The parsed options. Invalid ones end the program with a message."""
    parser = argparse.ArgumentParser(
        prog="tests/bench/run.sh",
        description=f"{description} Records: {CONTENT}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--records", type=positive, default=3_000_000, help="records in the filled topic"
    )
    parser.add_argument("--partitions", type=positive, default=8, help="partitions of both topics")
    parser.add_argument("--size", type=_size, default=1024, help="size of a value in bytes")
    parser.add_argument(
        "--rates", type=numbers, default="1000", metavar="NUMBER,...",
        help="records per second of the latency race, one after the other",
    )  # fmt: skip
    parser.add_argument(
        "--seconds",
        type=positive,
        default=60,
        help="duration of the latency race at each rate, after a warm-up",
    )
    parser.add_argument(
        "--batch-seconds", type=positive,
        help="length of the mirror's Real-Time batches, so that some end in the latency race",
    )  # fmt: skip
    parser.add_argument("--rounds", type=positive, default=1, help="repetitions of all races")
    parser.add_argument("--only", choices=("mirror", "mm2"), help="run only this one")
    parser.add_argument("--no-latency", action="store_true", help="throughput only")
    parser.add_argument("--no-throughput", action="store_true", help="latency only")
    parser.add_argument(
        "--modes", type=chosen_from(MODES), default="realtime", metavar="MODE,...",
        help=f"of the mirror; {', '.join(MODES)}",
    )  # fmt: skip
    add_setting_option(parser)
    parser.add_argument(
        "--mm2-set", action="append", default=[], metavar="KEY=VALUE", type=_assignment,
        help="the same for MirrorMaker 2: {target}.producer.linger.ms=0",
    )  # fmt: skip
    parser.add_argument(
        "--case", action="append", default=[], metavar="TEXT", type=case,
        help="a further contender with settings of its own: 'producer.linger.ms=1', "
        "'-XX:+UseParallelGC', 'mm2 tasks.max=8'",
    )  # fmt: skip
    add_spark_option(parser)
    _add_distance_options(parser)
    return parser.parse_args(arguments)


def _add_distance_options(parser: argparse.ArgumentParser) -> None:
    far = parser.add_argument_group("distance", "contenders reach one of the clusters from afar")
    far.add_argument("--far", choices=("source", "target"), help="which cluster is far away")
    far.add_argument("--round-trip", type=float, default=100, metavar="MS", help="to that cluster")
    far.add_argument("--jitter", type=float, default=0, metavar="MS", help="more, for some bytes")
    far.add_argument("--loss", type=float, default=0, metavar="SHARE", help="sent once more")
    far.add_argument(
        "--window", type=float, default=16, metavar="MIB",
        help="what a connection has on its way; Linux lets buffers grow to 4 MiB by itself",
    )  # fmt: skip


def new_parser(document: str | None) -> argparse.ArgumentParser:
    """A parser for the program with that docstring; its help shows the defaults."""
    return argparse.ArgumentParser(
        description=(document or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def add_topic_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what the source topic is like."""
    parser.add_argument("--partitions", type=positive, default=8, help="of the topic")
    parser.add_argument("--size", type=positive, default=1024, help="of a value in bytes")


def add_setting_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--set``, which may be given several times."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", type=_assignment,
        help="a further line of the mirror's configuration: producer.linger.ms=5",
    )  # fmt: skip


def assignments(lines: Sequence[str]) -> dict[str, str]:
    """What ``--set`` and its like were given, by key."""
    return dict(line.split("=", 1) for line in lines)


def add_spark_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--spark``, which may be given several times."""
    parser.add_argument(
        "--spark", action="append", default=[], metavar="ARGUMENT",
        help="a further argument of the mirror's spark-submit: --spark=--conf --spark=k=v",
    )  # fmt: skip


def positive(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return number


def numbers(text: str) -> list[int]:
    """Such numbers with commas between them."""
    return [positive(part) for part in text.split(",")]


def _size(text: str) -> int:
    number = positive(text)
    if number < SMALLEST_BYTES:
        raise argparse.ArgumentTypeError(f"must be {SMALLEST_BYTES} or more, got {text}")
    return number


def chosen_from(known: Collection[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of *known*, with commas between them."""

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {unknown[0]!r}; one of {', '.join(known)}")
        return names

    return chosen


def _assignment(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, got {text!r}")
    return text
