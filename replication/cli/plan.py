"""``plan`` and ``transform``: what a start of the flows would do, and transforms with records."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    ONE_FLOW,
    chosen_flow,
    chosen_flows,
    echo,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.cli.with_changes import with_changes
from replication.config.file import load_config, setting_line
from replication.config.transforms import ADD, PREFIX, read_transforms
from replication.config.tree import FlowConfig, MirrorConfig
from replication.config.values import Raw
from replication.control.changed import in_force, steerings
from replication.control.overrides import check_loops
from replication.control.plan import (
    FlowPlan,
    Histories,
    PartitionStart,
    plan_flow,
    refused_transforms,
)
from replication.control.sample import (
    MOST_RECORDS,
    TRIED,
    FlowSample,
    SampleRequest,
    TopicSample,
    sample_flow,
    sample_topic,
    text_of,
)
from replication.control.starts import stored_map
from replication.errors import ConfigError, GuardError
from replication.kafka.cluster import open_clusters
from replication.model import Chain
from replication.spark.transform_check import Sampled, ShownRecord
from replication.state.dead_letters import waiting_letters
from replication.state.readers import open_reader
from replication.state.storage import storage_for
from replication.state.table_reader import StateReader
from replication.topics.acls import AclHistory
from replication.topics.configs import SyncHistory
from replication.topics.topic_plan import find_all_conflicts

# How a sample of transformed records is printed, and the options for one.

SAMPLE: Final = click.option(
    "--sample",
    "records",
    type=click.IntRange(1, MOST_RECORDS),
    metavar="N",
    help="Also show what transforms make of the last N records of each topic, with content.",
)
SHOWN: Final = 200
"""How much of a value the table shows, in characters; JSON has more."""

_HEADINGS: Final = ("partition", "offset", "outcome", "part", "before", "after")


def print_sample(sample: FlowSample) -> None:
    """Prints the records of each topic, before and after."""
    if not sample.topics:
        say(f"no topic of {sample.flow} has transforms")
    for topic in sample.topics:
        counts = ", ".join(f"{count} {name}" for name, count in topic.counts.items() if count)
        names = ", ".join(topic.transforms)
        title = f"{topic.topic} through {names}: {counts or 'no record'}"
        print_table(title, _HEADINGS, _rows(topic))
    if sample.others:
        say(f"{sample.others} more topics of {sample.flow} have transforms; name one by --topic")


def _rows(topic: TopicSample) -> Iterator[tuple[str, ...]]:
    for one in topic.records:
        place = (str(one.partition.partition), str(one.offset), one.outcome)
        for number, row in enumerate(_parts(one)):
            yield (*place, *row) if number == 0 else ("", "", "", *row)


def _parts(one: Sampled) -> Iterator[tuple[str, str, str]]:
    """Yields the parts that changed; all of a record that did not, or has no copy."""
    before = dict(_texts(one.before))
    after = dict(_texts(one.after)) if one.after else {}
    changed = [part for part in before if one.after and before[part] != after[part]]
    for part in changed or before:
        mark = " (differs)" if part in one.differing else ""
        yield f"{part}{mark}", before[part], after[part] if changed else ""
    if one.error:
        yield "error", "", one.error


def _texts(content: ShownRecord) -> Iterator[tuple[str, str]]:
    yield "key", _cut(text_of(content.key))
    yield "value", _cut(text_of(content.value))
    headers = ", ".join(f"{name}={text_of(value)}" for name, value in content.headers)
    yield "headers", _cut(headers)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.."


HEADINGS = ("partition", "remote topic", "resumes at", "because of", "to do")
ASIDE_HEADINGS = ("topic", "because")
CHANGE_HEADINGS = ("number", "change", "by", "at", "reason")
SETTING_HEADINGS = ("remote topic", "setting", "now", "then", "note")
ACL_HEADINGS = ("to do", "ACL on the target")
LETTER_HEADINGS = ("topic", "letters", "in", "since")
DEFAULT = "(target's default)"
INTERNAL_HEADINGS = ("internal topic", "cluster", "purpose", "to do")


@click.command()
@FILE
@FLOW
@CLUSTERS
@SAMPLE
@click.option("--topic", default="", help="With --sample: only this topic of the source.")
@AS_JSON
@known_errors
def plan(
    *,
    file: str,
    name: str | None,
    clusters: str,
    records: int | None,
    topic: str,
    as_json: bool,
) -> None:
    """Show topics, resume positions and what would be created.

    Creates nothing. Starts Spark here if records of both clusters must be compared, as before a
    take-over, and for transforms. Exits with 5 if a flow would not start, or would set a topic
    aside, and with 2 if a topic would be copied in a circle, or a transform is refused.
    """
    if topic and not records:
        raise click.UsageError("--topic is for --sample; write --sample 20 as well")
    config = load_config(file, clusters, is_whole=True)
    check_loops(config)
    config = in_force(config)
    flows = chosen_flows(config, name) if config.flows or name else ()
    storage = storage_for(config.access)
    with open_reader(config.access) as state:
        wanted = SampleRequest(records, topic) if records else None
        changes = steerings(config.access, [flow.flow for flow in flows])
        plans = [
            replace(_plan(config, flow, state, wanted), steering=changes[flow.flow])
            for flow in flows
        ]
    if as_json:
        engine = {"engine": storage.engine, "reason": storage.why}
        print_json({"flows": [plan.document() for plan in plans], "state": engine})
    else:
        for flow_plan in plans:
            _print(flow_plan)
        if not plans:
            pairs = ", ".join(map(str, config.names))
            echo(f"no flow is enabled: a start emits the heartbeats of {pairs}")
        echo(f"tables in {config.state_dir}: by {storage.engine} ({storage.why})")
    problems = [f"{plan.config.flow}: {text}" for plan in plans for text in plan.problems]
    problems += find_all_conflicts(
        {plan.config.flow: plan.topics for plan in plans},
        {alias: uid for plan in plans for alias, uid in plan.cluster_ids.items()},
    )
    if problems:
        lines = "".join(f"\n  - {text}" for text in problems)
        raise GuardError(f"not everything would be replicated:{lines}")


def _plan(
    config: MirrorConfig, flow: FlowConfig, state: StateReader, wanted: SampleRequest | None
) -> FlowPlan:
    heartbeats = next((pair for pair in config.heartbeats if pair.flow == flow.flow), None)
    stored = stored_map(config.access, flow, state)
    histories = Histories(
        SyncHistory.of(state.rows("topic_configs", flow.flow)),
        AclHistory.of(state.rows("topic_acls", flow.flow)),
    )
    with open_clusters(flow) as clusters:
        planned = plan_flow(flow, heartbeats, clusters, stored, histories, flows=config.flows)
        if problems := refused_transforms(flow, planned.topics, clusters):
            raise ConfigError(config.file, problems)
        planned = replace(planned, letters=waiting_letters(state, flow.flow))
        if wanted is None:
            return planned
        return replace(planned, sample=sample_flow(flow, clusters, planned.topics, wanted))


def _print(plan: FlowPlan) -> None:
    topics, flow = plan.topics.topics, plan.config.flow

    def table(title: str, headings: Sequence[str], rows: Collection[Sequence[str]]) -> None:
        if rows:
            print_table(title, headings, rows)

    rows = (
        (
            str(start.partition),
            topics[start.partition.topic],
            "-" if start.offset is None else str(start.offset),
            start.reason,
            _to_do(plan, start),
        )
        for start in plan.starts
    )
    print_table(f"{flow}", HEADINGS, rows)
    changes = [
        (str(change.number), change.text, change.by, change.at, change.reason)
        for change in plan.steering.in_force
    ]
    table(f"changes of {flow} by operators", CHANGE_HEADINGS, changes)
    left_out = plan.topics.left_out.items()
    aside = [(cause.subject, cause.text) for cause in plan.causes if not cause.is_internal]
    table(f"topics that {flow} would set aside", ASIDE_HEADINGS, aside)
    table(f"topics that {flow} leaves out", ASIDE_HEADINGS, left_out)
    internal = (
        (topic.name, topic.cluster, topic.purpose, "" if topic.exists else "create")
        for topic in plan.internal_topics
    )
    print_table(f"internal topics of {flow}", INTERNAL_HEADINGS, internal)
    letters = [(one.topic, str(one.letters), one.place, one.since[:19]) for one in plan.letters]
    table(f"dead letters of {flow} that wait", LETTER_HEADINGS, letters)
    settings = [
        (
            topic.remote.name,
            change.key,
            DEFAULT if change.before is None else change.before,
            DEFAULT if change.value is None else change.value,
            "overwrites a change made on the target" if change.is_conflict else "",
        )
        for topic in plan.settings
        for change in topic.changes
    ]
    table(f"settings to change for {flow}", SETTING_HEADINGS, settings)
    acls = [(action, str(acl)) for action, acl in plan.acl_changes()]
    table(f"ACLs to change for {flow}", ACL_HEADINGS, acls)
    if plan.sample is not None:
        print_sample(plan.sample)
    for text in plan.warnings:
        say(f"warning: {text}")


def _to_do(plan: FlowPlan, start: PartitionStart) -> str:
    if plan.steering.paused.covers(start.partition):
        return "nothing: paused"
    remote = plan.topics.topics[start.partition.topic]
    if remote in plan.topics.grow:
        return f"grow to {plan.topics.grow[remote]} partitions"
    return "create" if remote in {topic.name for topic in plan.topics.create} else ""


# ``transform``: what a transform would make of records, before it is in the file.

_START: Final = f"{PREFIX}{TRIED}."


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="A topic of the source, which the flow replicates.")
@click.option("--filter", "where", default="", metavar="SQL", help="Which records are copied.")
@click.option("--key", default="", metavar="SQL", help="The key of the copy.")
@click.option("--value", default="", metavar="SQL", help="The value of the copy.")
@click.option("--headers", default="", metavar="SQL", help="The headers of the copy.")
@click.option("--add-header", multiple=True, metavar="NAME=SQL", help="Add a header.")
@click.option("--remove-header", multiple=True, metavar="NAME", help="Leave headers out.")
@click.option(
    "--unknown", default="", metavar="fail|drop|keep", help="What a filter that is NULL means."
)
@click.option("--nullable", is_flag=True, help="A key, value or headers may become NULL.")
@click.option(
    "--sample",
    "records",
    type=click.IntRange(1, MOST_RECORDS),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the last N records.",
)
@AS_JSON
@known_errors
def transform(
    *,
    file: str,
    name: str | None,
    topic: str,
    where: str,
    key: str,
    value: str,
    headers: str,
    add_header: tuple[str, ...],
    remove_header: tuple[str, ...],
    unknown: str,
    nullable: bool,
    records: int,
    as_json: bool,
) -> None:
    """Show what transforms make of records, before and after.

    Shows the last records of a topic with their content, and copies nothing. The transforms of the
    file come first; without an SQL option they are all. Starts Spark here. Exits with 5 if a
    record would be an error, for which its topic is set aside, or if two evaluations differ.
    """
    given = {"filter": where, "key": key, "value": value, "headers": headers, "unknown": unknown}
    given["nullable"] = "true" if nullable else ""
    settings: dict[str, Raw] = {"topics": (topic,)}
    settings |= {end: text for end, text in given.items() if text}
    settings |= {"headers.remove": remove_header} if remove_header else {}
    is_tried = len(settings) > 1 or add_header
    tried = _tried(settings, add_header) if is_tried else ()
    config = chosen_flow(with_changes(load_config(file)), name)
    sample = sample_topic(config, SampleRequest(records, topic, tried))
    in_file = {f"{PREFIX}NAME.{end}": raw for end, raw in settings.items() if is_tried}
    if as_json:
        print_json(sample.document() | {"settings": in_file})
    else:
        print_sample(sample)
        if in_file:
            say("in the file, with a name of your own for NAME:")
        for end, raw in in_file.items():
            say(f"  {setting_line(end, raw)}")
    if problems := sample.problems:
        lines = "".join(f"\n  - {text}" for text in problems)
        raise GuardError(f"{topic} would be set aside:{lines}")


def _tried(settings: dict[str, Raw], added: Iterable[str]) -> Chain:
    """Returns the transform of *settings*, to which the headers *added* are added."""
    problems = []
    for text in added:
        header, sign, sql = text.partition("=")
        settings[f"{ADD}{header.strip()}"] = sql.strip()
        problems += [] if sign else [f"--add-header {text!r}: write NAME=SQL"]
    read = read_transforms([TRIED], {f"{_START}{end}": raw for end, raw in settings.items()})
    problems += [f"{_option(key)}: {problem}" for key, problem in read.problems]
    if problems:
        raise ConfigError("transform", problems)
    return read.transforms


def _option(key: str) -> str:
    end = key.removeprefix(_START)
    if end.startswith(ADD):
        return f"--add-header {end.removeprefix(ADD)}"
    return {"headers.remove": "--remove-header", "topics": "--topic"}.get(end, f"--{end}")
