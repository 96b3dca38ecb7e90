"""Which tests are about which files of the product, where no import says it.

Java is imported by nothing, and a test that starts a job imports none of its modules. In patterns,
``*`` stands for any characters, ``/`` among them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

DATA_PATH: Final = tuple(
    f"replication/{name}/" for name in ("jvm", "flows", "positions", "offsets", "state", "spark")
)
"""A mistake in these folders may lose or repeat records: all tests of its subjects run."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Files of the product, and the files of tests that are about them, as patterns."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def _cluster(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/cluster/{name}.py" for name in names)


SUBJECTS: Final = (
    Subject(
        ("replication/*letter*",),
        ("tests/*letter*.py", *_cluster("records/test_rejected*", "records/test_send_failures")),
    ),
    Subject(("replication/*[Hh]eartbeat*",), _cluster("heartbeats/*")),
    Subject(
        ("replication/*[Ss]chema*",), ("tests/ops/test_rest_schemas.py", "tests/*/test_schemas.py")
    ),
    Subject(
        ("replication/*transform*", "replication/spark/counting.py"),
        (
            *("tests/*transform*.py", "tests/*sample*.py"),
            *_cluster("records/test_recipes_flow", "records/test_rejected*", "commands/test_long*"),
        ),
    ),
    Subject(
        (
            *("replication/jvm/calls/Owner*", "replication/kafka/ownership.py"),
            *(f"replication/state/{name}*.py" for name in ("lease", "claim")),
        ),
        (*_cluster("leases/*", "outages/test_pauses"), "tests/ops/test_silent.py"),
    ),
    Subject(
        (
            *("replication/*[Ll]imit*", "replication/*[Qq]uota*", "replication/*Throttle*"),
            *("replication/jvm/*/*Rate*", "replication/jvm/*/*Pause*"),
        ),
        (
            *_cluster("records/test_limits", "outages/test_limited*", "outages/test_paused*"),
            *_cluster("commands/test_limit*", "commands/test_*paused*"),
            "tests/ops/test_throttles.py",
        ),
    ),
    Subject(
        (
            *("replication/groups/*", "replication/upkeep/groups.py", "replication/kafka/*group*"),
            *("replication/*checkpoints*", "replication/jvm/calls/Group*"),
        ),
        _cluster("groups/*"),
    ),
    Subject(
        (
            *("replication/jvm/source/*", "replication/jvm/calls/*Codecs*"),
            "replication/spark/mode.py",
            *(f"replication/flows/replicate/{name}*.py" for name in ("generation", "idle")),
        ),
        _cluster(
            *(f"records/test_{name}*" for name in ("shared", "idle", "many", "source", "known")),
            *(f"records/test_{name}*" for name in ("open", "memory", "old", "latest")),
            "outages/*",
        ),
    ),
    Subject(
        ("replication/positions/*", "replication/offsets/*", "replication/jvm/calls/*"),
        _cluster(
            *("guard/*", "groups/*", "outages/test_crash", "commands/test_move*"),
            *(f"records/test_{name}*" for name in ("settle", "known", "offset", "odd", "latest")),
            *("mm2/test_take_over", "mm2/test_compacted*"),
        ),
    ),
    Subject(
        ("replication/state/*",),
        (
            *_cluster("state/*", "guard/test_cuts", "leases/*", "commands/test_change*"),
            *(f"tests/deploy/test_{name}.py" for name in ("delta_rs", "remote_tables", "s3")),
            "tests/deploy/test_changes_hadoop.py",
        ),
    ),
    Subject(
        (
            "replication/jvm/producer/*",
            "replication/jvm/plugin/*",
            "replication/jvm/*.py",
            "replication/jvm/Ack*",
        ),
        _cluster("records/*", "outages/*"),
    ),
    Subject(
        ("replication/flows/metadata.py", "replication/topics/*", "replication/upkeep/*"),
        _cluster("topics/*"),
    ),
    Subject(
        ("replication/flows/observe/*", "replication/flows/publisher.py", "replication/figures/*"),
        tuple(
            f"tests/ops/test_{name}*.py"
            for name in ("all", "causes", "co", "driver", "known", "marker", "silent", "status")
        ),
    ),
    Subject(
        ("replication/spark/*", "replication/flows/*"),
        _cluster("records/*", "outages/*", "guard/*", "topics/*"),
    ),
    Subject(("replication/kafka/*",), _cluster("clients/*", "security/*")),
    Subject(("replication/mm2/*",), _cluster("mm2/*")),
    Subject(
        ("replication/serve/*",),
        tuple(f"tests/ops/test_{name}*.py" for name in ("rest", "serve", "pages")),
    ),
    Subject(
        ("replication/metrics/*",), ("tests/ops/test_all_figures.py", "tests/ops/test_prom*.py")
    ),
    Subject(
        (
            *(f"replication/{name}/*" for name in ("features", "cli", "app", "control", "config")),
            "spark-submit.sh",
        ),
        _cluster("commands/*"),
    ),
    Subject(
        ("replication/deploy/*", "replication/jvm/agent/*", "conf/deploy/*"), ("tests/deploy/*.py",)
    ),
)
"""The narrow ones first: in this order their tests run."""


def is_on_data_path(path: str) -> bool:
    """Whether a mistake in the file at *path* may lose or repeat records."""
    return path.startswith(DATA_PATH)


@cache
def subject_rank(test_file: str, changed: frozenset[str]) -> int | None:
    """The place of the first subject of *test_file* in which a file was *changed*, if any."""
    return next(
        (
            place
            for place, subject in enumerate(SUBJECTS)
            if fits([test_file], subject.tests) and fits(changed, subject.files)
        ),
        None,
    )


def fits(paths: Collection[str], patterns: Collection[str]) -> bool:
    """Whether any of *paths* fits any of *patterns*."""
    return any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)
