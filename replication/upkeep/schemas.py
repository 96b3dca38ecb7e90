"""The schemas of copied topics at the target's registry: under their own ids, or under its own."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from os.path import commonprefix
from typing import Final, TypeVar

from replication.errors import GuardError
from replication.kafka.registry import FORBIDDEN, Registry, RegistryError
from replication.schemas.difference import Held, RegistryDifference, difference, waves
from replication.schemas.values import (
    Part,
    Reference,
    Schema,
    Version,
    on_target,
    subject_for,
    topic_of,
)

SHOWN = 20
"""How many conflicts an error names."""

IMPORT = "IMPORT"

ASKED_A_ROUND: Final = 50
"""How many subjects are asked one by one in a round, where there are more; each in its turn."""

Item = TypeVar("Item")
Read = TypeVar("Read")
Key = tuple[str, int]
"""A subject, and the number of a version."""


class _Learnt:
    """What was learnt of a registry: a round goes on where the one before ended, or broke off.

    A registry of many subjects is asked for lists of them, if it has such, and else for some
    subjects a round. What it knows is told from what was not asked: the latter is in no field.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.has_lists = True
        self._versions: dict[Key, Version] = {}  # a registry changes none of them
        self._numbers: dict[str, list[int]] = {}
        self._round = 0

    def versions(self, subjects: Collection[str], *, is_thorough: bool) -> list[Version]:
        """Returns the versions of *subjects*, and of those that they refer to.

        If *is_thorough*, none is taken to be as it was when it was last asked.
        """
        self._round += 1
        found: list[Version] = []
        left, seen = sorted(subjects), set[str]()
        while left:
            self._ask_numbers(left, is_thorough=is_thorough)
            seen.update(left)
            keys = [(subject, number) for subject in left for number in self._numbers[subject]]
            self.registry.each(
                self._ask_version, [key for key in keys if key not in self._versions]
            )
            new = [self._versions[key] for key in keys]
            found += new
            needed = {reference.subject for one in new for reference in one.schema.references}
            left = sorted(needed - seen)
        return found

    def knows(self, subject: str) -> bool:
        return bool(self._numbers.get(subject))

    def turn_of(self, subjects: Sequence[str]) -> list[str]:
        """Returns those of *subjects* whose turn this round is, all if they are few."""
        if len(subjects) <= ASKED_A_ROUND:
            return list(subjects)
        start = self._round * ASKED_A_ROUND % len(subjects)
        return [*subjects, *subjects][start : start + ASKED_A_ROUND]

    def _ask_numbers(self, subjects: list[str], *, is_thorough: bool) -> None:
        if len(subjects) <= ASKED_A_ROUND:
            self.registry.each(self._ask_subject, subjects)
            return
        unknown = {subject for subject in subjects if subject not in self._numbers}
        due = unknown.union(subjects if is_thorough else self.turn_of(subjects))
        if self.has_lists:
            is_only_latest = len(unknown) <= ASKED_A_ROUND and not is_thorough
            prefix = commonprefix(subjects)  # noqa: RUF071 - names, and not paths
            listed = self.registry.listed(prefix, only_latest=is_only_latest)
            self.has_lists = listed is not None
            numbers = defaultdict[str, list[int]](list)
            for one in listed or ():
                self._versions[one.subject, one.number] = one
                numbers[one.subject].append(one.number)
            if is_only_latest:
                due |= {
                    name for name in subjects if not _has(self._numbers.get(name), numbers[name])
                }
            else:
                due -= numbers.keys()
                self._numbers |= {name: sorted(found) for name, found in numbers.items()}
        self.registry.each(self._ask_subject, sorted(due))

    def _ask_subject(self, subject: str) -> None:
        self._numbers[subject] = self.registry.versions(subject)

    def _ask_version(self, key: Key) -> None:
        self._versions[key] = self.registry.version(*key)


def _has(known: Collection[int] | None, latest: Collection[int]) -> bool:
    return known is not None and bool(latest) and set(latest) <= set(known)


class PreservedSchemas:
    """Keeps the target's registry in step with the source's: versions, ids, compatibility.

    Args:
        source: The registry of the source.
        target: That of the target; the address may name a context of it.
    """

    def __init__(self, source: Registry, target: Registry) -> None:
        self._source = _Learnt(source)
        self._target = _Learnt(target)
        self._free = set[int]()  # ids that the target did not know
        self._imported = set[str]()  # subjects of the target

    def compare(self, remote: Mapping[str, str], *, is_thorough: bool = True) -> RegistryDifference:
        """Returns what the target lacks of the schemas of some topics.

        Args:
            remote: The remote topic of each topic whose records carry ids.
            is_thorough: Whether each subject is asked; else only some where there are many, and
                the others are as they were when they were asked last.

        Raises:
            RegistryError: A registry does not answer, or refuses.
        """
        named = partial(on_target, remote=remote)
        names = self._source.registry.subjects()
        subjects = sorted(name for name in names if topic_of(name, remote.keys()))
        versions = self._source.versions(subjects, is_thorough=is_thorough)
        wanted = {named(version.subject) for version in versions}
        existing = wanted & set(self._target.registry.subjects()) if wanted else set[str]()
        self._imported &= existing
        there = self._target.versions(existing, is_thorough=is_thorough)
        ids = {version.id for version in versions} - {version.id for version in there}
        by_id = self._by_id(ids)
        own = sorted({version.subject for version in versions})
        asked = own if is_thorough else self._source.turn_of(own)
        levels = self._levels(self._source.registry, asked)
        target_levels = self._levels(self._target.registry, existing & set(map(named, levels)))
        source = Held(tuple(versions), compatibility=levels)
        return difference(source, Held(tuple(there), by_id, target_levels), named)

    def register(self, found: RegistryDifference) -> None:
        """Registers at the target what it lacks by *found*, which has no conflicts.

        Raises:
            RegistryError: A registry does not answer, or refuses one of them. What was registered
                stays.
        """
        registry = self._target.registry
        refused: RegistryError | None = None
        for versions in waves(found.missing):
            try:
                registry.each(self._put, versions)
            except RegistryError as error:  # noqa: PERF203 - a wave each
                refused = refused or error
                if not error.is_final:
                    raise
        registry.each(lambda level: registry.set_compatibility(*level), found.levels.items())
        if refused is not None:
            raise refused

    def _put(self, version: Version) -> None:
        subject, registry = version.subject, self._target.registry
        if subject not in self._imported:
            if not self._target.knows(subject) or registry.mode(subject) != IMPORT:
                registry.begin_import(subject)
            self._imported.add(subject)
        registry.put(version)

    def _by_id(self, ids: Collection[int]) -> dict[int, Schema]:
        registry, found = self._target.registry, dict[int, Schema]()
        left = [number for number in sorted(ids) if number not in self._free]
        if len(left) > ASKED_A_ROUND and self._target.has_lists:
            listed = registry.listed("", deleted=True)
            if listed is not None:
                return {one.id: one.schema for one in listed if one.id in ids}
            self._target.has_lists = False

        def ask(number: int) -> None:
            if (schema := registry.schema(number)) is None:
                self._free.add(number)
            else:
                found[number] = schema

        registry.each(ask, left)
        return found

    def _levels(self, registry: Registry, subjects: Collection[str]) -> dict[str, str]:
        names = sorted(subjects)
        levels = zip(names, registry.each(registry.compatibility, names), strict=True)
        return {name: level for name, level in levels if level is not None}


def refusal(flow: str, found: RegistryDifference, address: str) -> GuardError:
    """Returns the error for conflicts: a consumer of the target would decode by another schema."""
    lines = [f"\n    - {conflict.text}" for conflict in found.conflicts[:SHOWN]]
    if (more := len(found.conflicts) - SHOWN) > 0:
        lines.append(f"\n    - and {more} more")
    return GuardError(
        f"flow {flow}: the schemas cannot keep their ids, because the registry at {address} has "
        f"others:{''.join(lines)}\n    Use a context of its own, as {address}/contexts/.A, or "
        "write replication.schemas: translate"
    )


class TranslatedSchemas:
    """Registers single schemas of the source at the target, which gives them ids of its own.

    Args:
        source: The registry of the source.
        target: That of the target.
    """

    def __init__(self, source: Registry, target: Registry) -> None:
        self._source = source
        self._target = target
        self._latest: dict[str, Version | None] = {}  # by subject of the source

    def each(self, ask: Callable[[Item], Read], items: Iterable[Item]) -> list[Read]:
        """Asks for each of *items*, some at the same time, as `Registry.each` does."""
        return self._source.each(ask, items)

    def register(
        self, number: int, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        """Registers the schema with an id of the source, and those that it needs.

        Args:
            number: The id on the source.
            topic: Of the source, whose record carries it.
            part: Where the record carries it.
            remote: The remote topic of each copied topic.

        Returns:
            The version at the target; None if the source's registry does not know the id.

        Raises:
            RegistryError: A registry does not answer, or refuses.
        """
        schema: Schema | None
        own = f"{topic}-{part}"
        known = self._latest.get(own)
        if own not in self._latest or (known is not None and known.id < number):
            try:
                known = self._source.latest(own)
            except RegistryError as error:
                if error.status != FORBIDDEN and not error.is_unsupported:
                    raise
                known = None  # whoever may not read this subject may read that of the record
            self._latest[own] = known
        if known is not None and known.id == number:  # as most are: one request tells all
            schema, uses = known.schema, {own}
        else:
            if (schema := self._source.schema(number)) is None:
                return None
            uses = {subject for subject, _ in self._source.uses(number)}
        _, subject = subject_for(uses, topic, part, remote)
        return self._registered(subject, schema, partial(on_target, remote=remote))

    def register_guid(
        self, guid: str, topic: str, part: Part, remote: Mapping[str, str]
    ) -> Version | None:
        """Registers the schema with a GUID, which is the same at the target, as `register` does.

        Returns:
            The version at the target; None if the source's registry does not know the GUID, or the
            target's gives the schema another one: that has its references in it.

        Raises:
            RegistryError: A registry does not answer, or refuses, or knows no GUIDs.
        """
        for number in self._source.ids_of(guid):
            version = self.register(number, topic, part, remote)
            if version is not None and version.id in self._target.ids_of(guid):
                return version
        return None

    def _registered(self, subject: str, schema: Schema, named: Callable[[str], str]) -> Version:
        references = []
        for one in schema.references:
            needed = self._source.version(one.subject, one.version).schema
            there = self._registered(named(one.subject), needed, named)
            references.append(Reference(one.name, there.subject, there.number))
        own = Schema(schema.text, schema.kind, tuple(references), schema.contract)
        there = self._target.register(subject, own)
        return there if there.number else self._target.lookup(subject, own) or there
