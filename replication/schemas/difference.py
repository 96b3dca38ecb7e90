"""What one registry lacks of another, and where the two contradict each other. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from replication.schemas.values import Reference, Schema, Version

Contradiction = Literal["id", "version", "foreign"]
"""The same id or version is another schema there; or only the target has a version."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a registry holds of the subjects that somebody asks for.

    Args:
        versions: Of these subjects, and of those that they refer to.
        by_id: Schemas under ids that were asked for, whatever subject they are of.
        compatibility: The level of each subject that has one of its own.
    """

    versions: tuple[Version, ...] = ()
    by_id: Mapping[int, Schema] = field(default_factory=dict)
    compatibility: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a version cannot be registered on the target as it is on the source."""

    kind: Contradiction
    text: str


@dataclass(frozen=True, slots=True)
class RegistryDifference:
    """What is to be done so that the target has what the source has.

    Args:
        missing: Versions to register, by their names on the target, each after those it needs.
        levels: Compatibility levels to set, by subject of the target.
        conflicts: Why that cannot be done.
    """

    missing: tuple[Version, ...] = ()
    levels: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether there is nothing to do, and nothing in the way."""
        return not (self.missing or self.conflicts or self.levels)


def difference(source: Held, target: Held, named: Callable[[str], str]) -> RegistryDifference:
    """Returns what *target* lacks of *source*, where a subject is called as *named* says."""
    wanted = [_renamed(version, named) for version in source.versions]
    there = {(version.subject, version.number): version for version in target.versions}
    ids = {version.id: version.schema for version in target.versions} | dict(target.by_id)
    conflicts = [
        conflict
        for version in wanted
        if (conflict := _conflict(version, there.get((version.subject, version.number)), ids))
    ]
    conflicts += _foreign(target.versions, {(one.subject, one.number) for one in wanted})
    levels = {named(subject): level for subject, level in source.compatibility.items()}
    return RegistryDifference(
        tuple(in_order(one for one in wanted if (one.subject, one.number) not in there)),
        {name: level for name, level in levels.items() if target.compatibility.get(name) != level},
        tuple(dict.fromkeys(conflicts)),
    )


def in_order(versions: Iterable[Version]) -> Iterator[Version]:
    """Yields *versions* by id, but each after those of them that it refers to."""
    left = {(one.subject, one.number): one for one in sorted(versions, key=lambda one: one.id)}

    def take(key: tuple[str, int]) -> Iterator[Version]:
        version = left.pop(key, None)
        if version is not None:
            for needed in version.schema.references:
                yield from take((needed.subject, needed.version))
            yield version

    for key in list(left):
        yield from take(key)


def waves(versions: Iterable[Version]) -> list[list[Version]]:
    """Returns *versions*, which are `in_order`, in lists of which each needs the ones before it.

    A version comes after those that it refers to, and after the one before it of its subject.
    """
    found: list[list[Version]] = []
    places: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    for one in versions:
        needed = [places.get((need.subject, need.version), -1) for need in one.schema.references]
        at = 1 + max([last.get(one.subject, -1), *needed])
        places[one.subject, one.number] = last[one.subject] = at
        found += [[]] if at == len(found) else []
        found[at].append(one)
    return found


def _renamed(version: Version, named: Callable[[str], str]) -> Version:
    references = tuple(
        Reference(one.name, named(one.subject), one.version) for one in version.schema.references
    )
    schema = replace(version.schema, references=references)
    return replace(version, subject=named(version.subject), schema=schema)


def _conflict(wanted: Version, there: Version | None, ids: Mapping[int, Schema]) -> Conflict | None:
    under_id = ids.get(wanted.id)
    if under_id is not None and not under_id.means(wanted.schema):
        return Conflict("id", f"id {wanted.id} is another schema there, here it is {wanted}")
    if there is not None and (there.id != wanted.id or not there.schema.means(wanted.schema)):
        return Conflict("version", f"{wanted} has id {there.id} there, or is another schema")
    return None


def _foreign(versions: Iterable[Version], wanted: set[tuple[str, int]]) -> Iterator[Conflict]:
    """Yields versions that only the target has, in subjects that the source has as well."""
    subjects = {subject for subject, _ in wanted}
    for one in versions:
        if one.subject in subjects and (one.subject, one.number) not in wanted:
            yield Conflict("foreign", f"{one} is there only: somebody else registers there")
