"""``doctor``: what is wrong before it hurts, with the command that mends it.

Looks at everything that a start of a file's flows would meet. Creates nothing on a cluster.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import known_in_force
from replication.control.clients import admins_of, clients_of, principals_of
from replication.control.machine import open_files_limit, slots_of
from replication.control.overrides import check_loops
from replication.control.sizing import shared_tasks
from replication.deploy.arguments import DRIVER_MEMORY, megabytes
from replication.errors import ConfigError, ReplicationError, SetupError
from replication.features.doctor.check_result import (
    CheckResult,
    exit_code,
    failed,
    script,
    told,
    unknown,
    worst,
)
from replication.features.doctor.clusters import AskedCluster, look_at_cluster, look_at_own
from replication.features.doctor.host import (
    judge_size,
    judge_slots,
    look_at_file,
    look_at_identity,
    look_at_java,
    look_at_leases,
    look_at_machine,
    look_at_ports,
    look_at_registries,
    look_at_state_dir,
    look_at_versions,
)
from replication.features.doctor.topics import FlowLook, look_at_flow
from replication.foreign_json import to_json
from replication.kafka.jvm import rejected_properties, shared_jvm
from replication.model import Flow, Mode
from replication.spark.mode import BATCH_MODES, Continuous
from replication.state.readers import open_reader
from replication.topics.acls import YOURS

AT_ONCE: Final = 8
CHANGES: Final = "changes of operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start that is judged."""

    config: MirrorConfig
    master: str
    heap_mb: int
    environ: Mapping[str, str]


def examine_rest(error: ConfigError, environ: Mapping[str, str]) -> tuple[CheckResult, ...]:
    """Returns what is found without a file that can be read: its problems, and this machine's."""
    return (
        *(told("the file", text, "problem", error.exit_code) for text in error.problems),
        *look_at_java(environ),
        *look_at_versions(),
    )


def with_changes(start: Start) -> tuple[Start, tuple[CheckResult, ...]]:
    """Returns *start* with the lists in force; with those of the file, if a row says why."""
    config, doubt = known_in_force(start.config)
    rows = (unknown(CHANGES, doubt, "mend state.dir, and ask again"),) if doubt else ()
    return replace(start, config=config), rows


def examine(start: Start) -> tuple[CheckResult, ...]:
    """Returns all that is found, in the order in which a start meets it.

    A subject that cannot be looked at does not keep the others from being looked at. The lists are
    those in force, or the file's where it is not known what operators have changed.
    """
    start, doubts = with_changes(start)
    config = start.config
    found = [
        *_guarded("the file", lambda: look_at_file(config, start.master)),
        *_guarded("the file", lambda: _look_at_clients(config)),
        *_guarded(
            "stores",
            lambda: (row for one in admins_of(config).items() for row in look_at_own(*one)),
        ),
        *_guarded(
            "this machine",
            lambda: look_at_machine(config, start.master, start.heap_mb, start.environ),
        ),
        *look_at_java(start.environ),
        *look_at_versions(),
        *_guarded("ports", lambda: look_at_ports(config)),
        *_guarded("state.dir", lambda: look_at_state_dir(config)),
        *doubts,
        *_look_at_clusters(config),
    ]
    sights = _look_at_flows(config)
    for sight in sights.values():
        found += sight.findings
    found += _guarded("state", lambda: _look_at_identities(config, sights))
    found += _guarded("schema registries", lambda: look_at_registries(config))
    found += _guarded("loops", lambda: _look_at_loops(config))
    found += _guarded("slots, heap and open files", lambda: _look_at_size(start, sights))
    found += _guarded("lease", lambda: look_at_leases(config))
    principals = principals_of(config)
    return tuple(_with_users(finding, principals) for finding in found)


def _guarded(what: str, look: Callable[[], Iterator[CheckResult]]) -> list[CheckResult]:
    """Returns what *look* yields; an error is a row of its own."""
    found: list[CheckResult] = []
    try:
        found.extend(look())
    except ReplicationError as error:
        found.append(failed(what, error))
    return found


def _look_at_clients(config: MirrorConfig) -> Iterator[CheckResult]:
    what = "properties of the clients"
    try:
        problems = rejected_properties(shared_jvm(), clients_of(config))
    except SetupError as error:  # without Java no job starts either
        yield failed(what, error)
        return
    for text in problems:
        yield told(what, text, "problem", ConfigError.exit_code)
    if not problems:
        yield CheckResult(what=what, found="Java's client takes them")


def _look_at_clusters(config: MirrorConfig) -> list[CheckResult]:
    admins, principals = admins_of(config), principals_of(config)
    sources = {flow.flow.source for flow in config.flows}
    targets = {flow.flow.target for flow in config.flows} | {one.alias for one in config.heartbeats}

    def look(alias: str) -> list[CheckResult]:
        asked = AskedCluster(
            alias=alias,
            admin=admins[alias],
            user=principals.get(alias, ""),
            is_source=alias in sources,
            is_target=alias in targets,
        )
        return _guarded(f"cluster {alias}", lambda: look_at_cluster(asked))

    with ThreadPoolExecutor(AT_ONCE, "doctor") as pool:
        return [finding for rows in pool.map(look, admins) for finding in rows]


def _look_at_flows(config: MirrorConfig) -> dict[Flow, FlowLook]:
    pairs, principals = {pair.flow: pair for pair in config.heartbeats}, principals_of(config)

    def look(flow: FlowConfig) -> FlowLook:
        return look_at_flow(flow, pairs.get(flow.flow), principals)

    with ThreadPoolExecutor(AT_ONCE, "doctor") as pool:
        sights = pool.map(look, config.flows)
        return {flow.flow: sight for flow, sight in zip(config.flows, sights, strict=True)}


def _look_at_size(start: Start, sights: Mapping[Flow, FlowLook]) -> Iterator[CheckResult]:
    tasks, modes = dict[Flow, int | None](), dict[Flow, Mode]()
    for flow in start.config.flows:
        shared = shared_tasks(flow)
        tasks[flow.flow] = sights[flow.flow].partitions if shared is None else shared
        modes[flow.flow] = flow.mode
    yield from judge_size(tasks, modes, start.heap_mb, open_files_limit())
    continuous = [flow for flow in start.config.flows if flow.mode not in BATCH_MODES]
    counts = [tasks[flow.flow] or 0 for flow in continuous if shared_tasks(flow) is None]
    given = slots_of(start.master)
    if given is not None and None not in tasks.values():
        needs = Continuous(sum(counts), len(continuous) - len(counts))
        yield judge_slots(needs, given, is_needed="realtime" in modes.values())


def _look_at_identities(
    config: MirrorConfig, sights: Mapping[Flow, FlowLook]
) -> Iterator[CheckResult]:
    with open_reader(config.access) as state:
        for flow in config.flows:
            yield look_at_identity(config, flow, state, sights[flow.flow].cluster_ids)


def _look_at_loops(config: MirrorConfig) -> Iterator[CheckResult]:
    check_loops(config)  # what it finds is an error
    yield from ()


def _with_users(finding: CheckResult, principals: Mapping[str, str]) -> CheckResult:
    """Returns *finding* with the user of the file in its commands, if it has only one."""
    users = set(principals.values())
    if len(users) != 1:
        return finding
    (user,) = users
    return replace(
        finding,
        next_step=finding.next_step.replace(YOURS, user),
        commands=tuple(command.replace(YOURS, user) for command in finding.commands),
    )


HEADINGS = ("what", "found", "verdict", "next step")


@click.command()
@FILE
@CLUSTERS
@click.option("--master", default="local", help="The Spark master of the job; default: local.")
@click.option(
    "--fix-commands",
    is_flag=True,
    help="Print only the next steps: commands as lines of a shell, the others as comments.",
)
@AS_JSON
@known_errors
def doctor(*, file: str, clusters: str, master: str, fix_commands: bool, as_json: bool) -> None:
    """Say what would keep the flows from running, or hurts later.

    Creates nothing on a cluster. What cannot be looked at is unknown, with the reason. Exits with 0
    if a start would run, as far as known; else with the code of the first problem: 2, 3, 6 or 7 as
    a start would end, and 5 if a topic would not be replicated.
    """
    memory = os.environ.get("DRIVER_MEMORY") or DRIVER_MEMORY
    try:
        heap_mb = megabytes(memory)
    except ValueError as error:
        raise SetupError(f"DRIVER_MEMORY={memory}: {error}") from error
    try:
        config = load_config(file, clusters, is_whole=True)
    except ConfigError as error:
        found = examine_rest(error, os.environ)
    else:
        start = Start(config=config, master=master, heap_mb=heap_mb, environ=os.environ)
        found = examine(start)
    code = exit_code(found)
    if as_json:
        rows = list(map(to_json, found))
        print_json({"verdict": worst(found), "exit_code": code, "findings": rows})
    elif fix_commands:
        for line in script(found):
            say(line)
    else:
        cells = ((one.what, one.found, one.verdict, one.next_step) for one in found)
        rows_of_table = (tuple(" ".join(cell.split()) for cell in row) for row in cells)
        print_table(f"what a start of {file} would meet", HEADINGS, rows_of_table)
    sys.exit(code)
