"""What an operator should know of a flow's lists: items that have no effect, and why. Pure."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from replication.config.keys import KEYS
from replication.config.tree import FlowConfig
from replication.config.values import items
from replication.mm2.filters import NameFilter
from replication.topics.selection import alias_of_copy, unmatched_items

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
        text = "lists no topics: it has none, or the user may not DESCRIBE them"
        yield f"{source} {text}"
        return
    for item in unmatched_items(config, selected):
        why = _why_unmatched(config, item, names)
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


def _why_unmatched(config: FlowConfig, item: str, names: Collection[str]) -> str:
    found = sorted(name for name in names if NameFilter((item,)).accepts(name))
    excluded = [name for name in found if NameFilter(config.topics_exclude).accepts(name)]
    if excluded:
        return f"topics.exclude excludes what it matches, such as {excluded[0]}"
    for name in found:
        if alias := alias_of_copy(config, name):
            return f"what it matches, such as {name}, begins with the alias {alias}"
    if found:
        return f"what it matches, such as {found[0]}, is internal and never copied"
    return f"it is misspelt, or the user of {config.flow.source} lacks DESCRIBE on it"
