"""Which topics a flow replicates, and under which remote names. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from replication.config.keys import KEYS
from replication.config.tree import FlowConfig
from replication.config.values import items
from replication.mm2.filters import NameFilter
from replication.mm2.policy import CustomPolicy, is_cycle
from replication.model import Flow, TopicPartition

LONGEST_NAME = 249
"""Kafka's limit for the name of a topic, in characters."""


def replicated_topics(config: FlowConfig, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics of *names* that the flow replicates, sorted.

    Args:
        config: The flow.
        names: Topics of the source, without Kafka's internal ones.
    """
    policy, flow = config.policy, config.flow
    return tuple(
        name
        for name in sorted(set(names))
        if (
            config.selects(name)
            or (config.heartbeats_replication_enabled and policy.is_heartbeats_topic(name))
        )
        and not is_internal(config, name)
        and not is_cycle(policy, name, source=flow.source, target=flow.target)
    )


def is_internal(config: FlowConfig, topic: str) -> bool:
    """Returns whether *topic* of the source is the replication's own, or Kafka's: never copied."""
    return config.policy.is_internal_topic(topic) or topic in config.source_own_topics


def remote_topics(config: FlowConfig, names: Iterable[str]) -> dict[str, str]:
    """Returns the remote name of each replicated topic among the source's *names*."""
    source = config.flow.source
    return {
        name: config.policy.remote_topic(source, name) for name in replicated_topics(config, names)
    }


def alias_of_copy(config: FlowConfig, topic: str) -> str | None:
    """Returns the flow's alias that makes *topic* look like a copy by its beginning, or None."""
    flow, policy = config.flow, config.policy
    alias = policy.topic_source(topic)
    is_copy = alias is not None and is_cycle(policy, topic, source=flow.source, target=flow.target)
    return alias if is_copy and alias in (flow.source, flow.target) else None


def aliased_topics(config: FlowConfig, names: Iterable[str]) -> dict[str, str]:
    """Returns topics that the lists take, but that pass for copies, with the alias in the name.

    As in MirrorMaker 2 since 4.4, they are left out. Heartbeats and internal topics are absent.
    """
    policy = config.policy
    return {
        name: alias
        for name in sorted(set(names))
        if config.selects(name)
        and not is_internal(config, name)
        and not policy.is_heartbeats_topic(name)
        and (alias := alias_of_copy(config, name)) is not None
    }


def writers_of(remote: str, flows: Iterable[FlowConfig], target: str) -> tuple[Flow, ...]:
    """Returns the *flows* that may write topic *remote* on cluster *target*, by their lists."""
    return tuple(
        config.flow
        for config in flows
        if config.flow.target == target
        and remote in remote_topics(config, _upstream(config, remote)).values()
    )


def _upstream(config: FlowConfig, remote: str) -> tuple[str, ...]:
    if isinstance(config.policy, CustomPolicy):
        upstream = config.policy.upstream_topic(remote)
        return (remote,) if upstream in (None, remote) else (remote, str(upstream))
    prefix = config.policy.remote_topic(config.flow.source, "")
    return (remote, remote.removeprefix(prefix)) if len(prefix) < len(remote) else (remote,)


def unmatched_items(config: FlowConfig, selected: Iterable[str]) -> tuple[str, ...]:
    """Returns the items of the list ``topics`` that match none of the source's *selected* topics.

    Such an item is misspelt, or every topic that it matches is excluded.
    """
    names = tuple(selected)
    return tuple(item for item in config.topics if not any(map(NameFilter((item,)).accepts, names)))


def selects_nothing(config: FlowConfig, selected: Iterable[str]) -> bool:
    """Returns whether a list that names topics selects none of the source's, except heartbeats.

    A list that is empty, or takes every topic, does what its author expects where there are none.
    """
    names = (name for name in selected if not config.policy.is_heartbeats_topic(name))
    return config.topics not in ((), (".*",)) and next(names, None) is None


def impossible_copies(config: FlowConfig, remote: Mapping[str, str]) -> dict[str, str]:
    """Returns why topics cannot have their names in *remote* on the target, by upstream name.

    The prefix makes a legal name too long, or the name is that of a topic of dead letters: what is
    written there would pass for copies.
    """
    letters = {
        name: f"{copy} is where flows keep dead letters on {config.flow.target}: write another "
        "name in replication.dead.letters.topic, or exclude the topic with topics.exclude"
        for name, copy in remote.items()
        if copy in config.target_letter_topics
    }
    return letters | {
        name: f"the name of its remote topic, {copy}, has {len(copy)} characters; Kafka allows "
        f"{LONGEST_NAME}: choose a shorter alias, or exclude the topic with topics.exclude"
        for name, copy in remote.items()
        if len(copy) > LONGEST_NAME
    }


# What an operator should know of a flow's lists: items that have no effect, and why.

EVERYTHING: Final = ".*"


def topic_notes(
    config: FlowConfig, names: Collection[str], selected: Collection[str]
) -> Iterator[str]:
    """Yields one line for each item of ``topics`` and ``topics.exclude`` that selects nothing.

    Args:
        config: The flow.
        names: All topics of the source that its user may see.
        selected: Those that the flow replicates.
    """
    if config.topic_filter is not None:  # the lists decide nothing
        return
    source = config.flow.source
    if not names:
        yield f"{source} lists no topics: it has none, or the user may not DESCRIBE them"
        return
    for item in unmatched_items(config, selected):
        found = sorted(name for name in names if NameFilter((item,)).accepts(name))
        excluded = [name for name in found if NameFilter(config.topics_exclude).accepts(name)]
        copies = ((name, alias) for name in found if (alias := alias_of_copy(config, name)))
        if excluded:
            why = f"topics.exclude excludes what it matches, such as {excluded[0]}"
        elif copy := next(copies, None):
            why = f"what it matches, such as {copy[0]}, begins with the alias {copy[1]}"
        elif found:
            why = f"what it matches, such as {found[0]}, is internal and never copied"
        else:
            why = f"it is misspelt, or the user of {source} lacks DESCRIBE on it"
        yield f"{item!r} in the list topics of {config.flow} selects no topic of {source}: {why}"
    for item in _without_effect(config.topics_exclude, "topics.exclude", names):
        yield (
            f"{item!r} in the list topics.exclude of {config.flow} excludes no topic of {source}: "
            f"it is misspelt, there is none yet, or the user of {source} lacks DESCRIBE on it"
        )


def setting_notes(config: FlowConfig, keys: Collection[str]) -> Iterator[str]:
    """Yields a line for each item of ``config.properties.exclude`` that matches none of *keys*."""
    if config.topic_configs.setting_filter is not None:  # the lists decide nothing
        return
    name = "config.properties.exclude"
    for item in _without_effect(config.topic_configs.exclude, name, keys):
        yield (
            f"{item!r} in the list {name} of {config.flow} excludes no setting: topics of "
            f"{config.flow.source} have none of that name"
        )


def group_notes(config: FlowConfig, names: Collection[str]) -> Iterator[str]:
    """Yields one line for each item of ``groups`` and ``groups.exclude`` that selects nothing.

    Args:
        config: The flow.
        names: All groups of the source that its user may see.
    """
    if config.groups.group_filter is not None:  # the lists decide nothing
        return
    source, groups = config.flow.source, config.groups
    for item in groups.groups:
        found = [name for name in names if NameFilter((item,)).accepts(name)]
        if item == EVERYTHING or any(map(groups.accepts, found)):
            continue
        why = (
            f"groups.exclude excludes what it matches, such as {min(found)}"
            if found
            else _why_no_group(source)
        )
        yield f"{item!r} in the list groups of {config.flow} selects no group of {source}: {why}"
    for item in _without_effect(groups.groups_exclude, "groups.exclude", names):
        yield (
            f"{item!r} in the list groups.exclude of {config.flow} excludes no group of {source}: "
            f"{_why_no_group(source)}"
        )


def uncopied_reads(
    config: FlowConfig, committed: Mapping[str, Iterable[TopicPartition]]
) -> Iterator[str]:
    """Yields a line for the groups that read topics which the flow does not copy.

    They find no position there on the target. A group that reads none of the flow's topics is
    named if the lists name groups: else it is only one of the source's many. Copies of the
    target's own topics are there already.

    Args:
        config: The flow.
        committed: Where each selected group has committed, by group.
    """
    flow, policy = config.flow, config.policy
    groups = defaultdict[tuple[str, ...], list[str]](list)
    for group, partitions in sorted(committed.items()):
        topics = {tp.topic for tp in partitions}
        copied = replicated_topics(config, topics)
        left = [
            topic
            for topic in sorted(topics.difference(copied))
            if not is_internal(config, topic)
            and not is_cycle(policy, topic, source=flow.source, target=flow.target)
        ]
        if left and (copied or names_groups(config)):
            groups[tuple(left)].append(group)
    for uncopied, names in groups.items():
        yield (
            f"group {_some(names)} reads {_some(uncopied)} on {flow.source}, which {flow} does not "
            "copy: no position is translated there; add it to the list topics, or the group to "
            "groups.exclude"
        )


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _why_no_group(source: str) -> str:
    return (
        f"it is misspelt, there is none yet, the user of {source} lacks DESCRIBE on it, or its "
        "coordinator is down"
    )


def names_groups(config: FlowConfig) -> bool:
    """Returns whether the flow's lists of groups have other items than the defaults."""
    groups = config.groups
    exclude = set(groups.groups_exclude).difference(items(KEYS["groups.exclude"].default))
    return bool(exclude) or groups.groups != (EVERYTHING,)


def names_settings(config: FlowConfig) -> bool:
    """Returns whether ``config.properties.exclude`` has other items than the default."""
    usual = items(KEYS["config.properties.exclude"].default)
    return bool(set(config.topic_configs.exclude).difference(usual))


def _without_effect(given: Iterable[str], key: str, names: Collection[str]) -> Iterator[str]:
    """Yields the items of *given* that match none of *names*, except those of the key's default."""
    usual = items(KEYS[key].default)
    for item in given:
        if item not in usual and not any(map(NameFilter((item,)).accepts, names)):
            yield item
