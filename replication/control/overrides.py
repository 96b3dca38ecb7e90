"""Makes a change of a running flow, and waits until it is in force.

A change needs no process and no cluster: it is there as soon as its object is, and the next start
follows it as well.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from replication.config.changes import (
    EDITS,
    HOLDS,
    Change,
    Overrides,
    What,
    fold,
    id_in,
    list_of,
    partition_of,
    problems_of,
)
from replication.config.checks import endless_loops
from replication.config.limits import Limit
from replication.config.tree import FlowConfig, MirrorConfig
from replication.config.values import closest
from replication.control.changed import known_in_force
from replication.control.lease_groups import LeaseGroups
from replication.errors import ClusterError, ConfigError
from replication.figures.observation import text_of
from replication.kafka.cluster import Cluster, distinct_ids
from replication.log import Log
from replication.mm2.filters import NameFilter, excluding
from replication.mm2.policy import CustomPolicy, IdentityPolicy
from replication.model import Flow
from replication.state.change_files import Applied, ChangeFiles, open_changes
from replication.state.requests import request
from replication.topics.topic_plan import find_topic_loops

log = Log(__name__)

POLL_SECONDS: Final = 0.25
"""Between two looks at whether a change is in force; on a remote state directory a second."""

_OPPOSITE: Final[dict[What, What]] = {
    "topics.remove": "topics.exclude",
    "groups.remove": "groups.exclude",
}


@dataclass(frozen=True, slots=True)
class FlowOverrides:
    """A flow, as operators have changed it so far.

    Args:
        configured: The flow, as its file has it.
        steering: What the changes come to.
        changes: Their objects.
    """

    configured: FlowConfig
    steering: Overrides
    changes: ChangeFiles

    @property
    def flow(self) -> Flow:
        """The flow."""
        return self.configured.flow

    @property
    def config(self) -> FlowConfig:
        """The configuration in force."""
        return self.steering.overlaid(self.configured)

    def after(self, change: Change) -> Overrides:
        """Returns what the changes would come to with *change* as the newest one."""
        newest = replace(change, number=self.steering.number + 1, id="f" * 32)
        return fold([*self.steering.changes, newest])


@contextmanager
def open_steered(mirror: MirrorConfig, config: FlowConfig) -> Iterator[FlowOverrides]:
    """Yields the flow of *config*, as operators have changed it so far, for the block.

    Raises:
        StateError: Its changes cannot be listed.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_changes(mirror.access, [config.flow]) as found:
        changes = found[config.flow]
        yield FlowOverrides(config, changes.read(), changes)


def new_change(
    flow: Flow, what: What, items: Sequence[str] = (), *, scope: str = "", reason: str = ""
) -> Change:
    """Returns a new change by the user who runs this process."""
    asked = request(reason=reason)
    at = text_of(time.time())
    return Change(flow, what, tuple(items), scope, asked.by, at, asked.reason)


def undo_of(steered: FlowOverrides, name: str, reason: str) -> Change:
    """Returns the change that undoes the change *name*: its number, or number and begin of its id.

    Raises:
        ConfigError: There is none, or there are several of that number.
    """
    number, _, begin = name.partition("-")
    found = [
        change
        for change in steered.steering.changes
        if number.isdecimal() and change.number == int(number) and change.id.startswith(begin)
    ]
    if not found:
        newest = steered.steering.number
        last = f"; the newest one is {newest}" if newest else ", and nothing was ever changed"
        raise ConfigError("undo", [f"{name}: {steered.flow} has no such change{last}"])
    if len(found) > 1:
        names = ", ".join(f"{number}-{change.id[:6]} ({change.text})" for change in found)
        raise ConfigError("undo", [f"{name}: several changes have this number; write one: {names}"])
    if found[0].id in steered.steering.undone:
        raise ConfigError("undo", [f"{name}: it is undone already; undo that undo instead"])
    return new_change(steered.flow, "undo", [found[0].name], reason=reason)


def check(steered: FlowOverrides, change: Change) -> None:
    """Makes sure that *change* can be followed, and does something.

    Raises:
        ConfigError: It cannot, or does not; the text says what to write instead.
    """
    problems = problems_of(change)
    if not problems:
        problems = list(_without_effect(steered, change))
    if problems:
        raise ConfigError(change.what, problems)


def _without_effect(steered: FlowOverrides, change: Change) -> Iterator[str]:
    config = steered.config
    custom = {
        "topics": config.topic_filter,
        "groups": config.groups.group_filter,
    }.get(change.what.partition(".")[0])
    if custom is not None:
        yield f"{custom.key}={custom.name} decides in place of the lists, so this changes nothing"
    elif change.what in EDITS:
        name, is_in = EDITS[change.what]
        items = list_of(config, name)
        for item in change.items:
            if is_in and item in items:
                yield f"{item!r} is in {name} already"
            elif not is_in and item not in items:
                yield _no_item(change.what, item, items)
    elif change.what == "resume":
        yield from _not_paused(steered, change)
    elif change.what in HOLDS:
        yield from _not_held(steered, change)
    elif change.what == "limit":
        yield from _not_limited(steered, change)


def _not_paused(steered: FlowOverrides, change: Change) -> Iterator[str]:
    """Yields what *change* would resume although it is not paused, or not by an operator."""
    if not change.items and not _ends_a_pause(steered, change):
        if steered.steering.held:
            yield f"flow {steered.flow} {steered.steering.hold_text(steered.flow)}"
        else:
            yield f"the flow is not paused as a whole{_what_is(steered)}"
    for item in change.items:
        if not _ends_a_pause(steered, replace(change, items=(item,))):
            yield f"{item!r} is not paused by itself{_what_is(steered)}"


def _ends_a_pause(steered: FlowOverrides, change: Change) -> bool:
    """Returns whether a pause of an operator ends by *change*, whatever else stays paused."""
    after = steered.after(change)
    return after != steered.steering or after.in_force != steered.steering.in_force


def _not_held(steered: FlowOverrides, change: Change) -> Iterator[str]:
    """Yields which operations hold the flow already, or do not hold it."""
    held = steered.steering.held
    for item in change.items:
        if change.what == "hold" and item in held:
            yield f"{item} holds the flow already"
        elif change.what == "release" and item not in held:
            near = closest(item, held)
            there = f"{', '.join(held)} {'do' if held[1:] else 'does'}" if held else "nothing does"
            yield f"{item} does not hold the flow; {f'did you mean {near}?' if near else there}"


def _not_limited(steered: FlowOverrides, change: Change) -> Iterator[str]:
    """Yields that *change* would end a limit of which there is none."""
    scopes = [limit.topics or "" for limit in steered.config.limits]
    if Limit.of_items(change.items).is_none and change.scope not in scopes:
        near = closest(change.scope, scopes)
        there = ", ".join(str(limit) for limit in steered.config.limits) or "nothing is limited"
        what = repr(change.scope) if change.scope else "the flow as a whole"
        yield f"{what} has no limit; {f'did you mean {near!r}?' if near else there}"


def _what_is(steered: FlowOverrides) -> str:
    paused = steered.steering.paused
    parts = [
        *(["the flow"] if paused.flow else []),
        *paused.topics,
        *(f"{tp.topic}:{tp.partition}" for tp in sorted(paused.partitions)),
    ]
    return f"; paused are: {', '.join(parts)}" if parts else "; nothing is paused"


def _no_item(what: What, item: str, items: Sequence[str]) -> str:
    """Returns that *item* is none of a list, what may be meant, and what does what is wanted."""
    list_name = EDITS[what][0]
    near = closest(item, items)
    text = f"{item!r} is no item of {list_name}"
    text += f"; did you mean {near!r}?" if near else f", which has: {', '.join(items) or 'nothing'}"
    matching = [other for other in items if NameFilter((other,)).accepts(item)]
    if what in _OPPOSITE and matching:
        text += f" {matching[0]!r} matches it: {excluding(item)} leaves it out"
    return text


def make(steered: FlowOverrides, change: Change) -> tuple[Change, list[Change]]:
    """Makes *change*; returns it, and what others have changed at the same time.

    Raises:
        StateError: It cannot be written.
    """
    made = steered.changes.write(change)
    return made, steered.changes.others_of(made)


def await_in_force(
    steered: FlowOverrides, change: Change, patience_seconds: float, *, is_local: bool
) -> str:
    """Waits until *change* is in force, or it is known that no process runs the flow.

    Returns:
        What is known of it: ``in force``, ``kept: …`` or ``not in force yet: …``.

    Raises:
        StateError: The state directory cannot be read.
    """
    flow, deadline = steered.flow, time.monotonic() + patience_seconds
    with LeaseGroups() as coordinators:
        while True:
            applied = steered.changes.applied()
            if applied is not None and is_in(change, applied):
                return f"in force by {applied.by}, generation {applied.generation}"
            witness = coordinators.ask([steered.configured])[flow]
            if witness.members is not None and not witness.members:
                return f"kept: no process runs {flow}; the next one follows it from its start"
            if time.monotonic() >= deadline:
                runs = f"nobody knows whether a process runs {flow}: {witness.reason}"
                reason = runs if witness.members is None else "the process has not said so"
                return f"not in force yet after {patience_seconds:g} s: {reason}"
            time.sleep(POLL_SECONDS if is_local else 4 * POLL_SECONDS)


def is_in(change: Change, applied: Applied) -> bool:
    """Returns whether *change* is among those in force; only the newest are named."""
    oldest = min(applied.names, default="")
    return change.name in applied.names or (id_in(oldest) is not None and change.name < oldest)


def pause_items(topics: Sequence[str], partitions: Sequence[int]) -> tuple[str, ...]:
    """Returns the items of a pause of *topics*, or of *partitions* of the one topic.

    Raises:
        ConfigError: Partitions are given without a topic, or with several.
    """
    if not partitions:
        return tuple(topics)
    if len(topics) != 1:
        raise ConfigError("--partition", ["it needs exactly one --topic, by its name"])
    items = tuple(f"{topics[0]}:{number}" for number in partitions)
    if any(partition_of(item) is None for item in items):
        raise ConfigError("--partition", [f"{topics[0]!r} is no name of a topic; write its name"])
    return items


# Whether the configured flows would copy a topic in a circle. Asks the clusters for their topics.
#
# The default policy ends every circle by its prefixes. Identity naming does not, and a policy of
# the user's may not, so such flows are checked before any of them starts, whichever process runs
# them.


def check_loops(config: MirrorConfig) -> None:
    """Checks the flows with identity naming, if their clusters form a circle at all.

    Flows that other processes run are among them. The lists are those in force; where the state
    directory cannot be read, the file's are checked, and a warning says so.

    Without an answer from a cluster the check is left out: the flows are checked again when they
    start, as far as they run in one process.

    Raises:
        ConfigError: A topic would be copied in a circle.
    """
    identity = flows_in_a_circle(config)
    if not identity:
        return
    admins = {side.alias: side.admin for flow in identity for side in (flow.source, flow.target)}
    try:
        with ExitStack() as stack:
            clusters = [stack.enter_context(Cluster(*side)) for side in admins.items()]
            names = {cluster.alias: cluster.topic_names() for cluster in clusters}
            ids = distinct_ids(clusters)
    except ClusterError as error:
        log.warning("loops_not_checked", text=error)
        return
    loops = find_topic_loops(identity, names, ids)
    if loops:
        raise ConfigError(config.file, loops)


def flows_in_a_circle(config: MirrorConfig) -> list[FlowConfig]:
    """Returns the flows that might copy a topic in a circle, with their lists in force.

    There are none where the clusters of such flows form no circle; nobody reads changes then.
    """
    if not endless_loops(
        {(flow.flow.source, flow.flow.target): False for flow in _unended(config)}
    ):
        return []
    known, doubt = known_in_force(config)
    if doubt:
        log.warning("loops_not_checked", text=f"not by what is in force: {doubt}")
    return _unended(known)


def _unended(config: MirrorConfig) -> list[FlowConfig]:
    """Returns the flows whose policies may not end a circle by themselves."""
    flows = (*config.flows, *config.other_flows)
    return [flow for flow in flows if isinstance(flow.policy, IdentityPolicy | CustomPolicy)]
