"""The schemas of copied topics at the target's registry: under their own ids, or under its own."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from replication.errors import GuardError
from replication.kafka.registry import Registry
from replication.schemas.difference import Held, RegistryDifference, difference
from replication.schemas.subjects import on_target, subject_for, topic_of
from replication.schemas.values import Part, Reference, Schema, Version

SHOWN = 20
"""How many conflicts an error names."""

IMPORT = "IMPORT"

Known = dict[tuple[str, int], Version]
"""Versions that were read before, by subject and number: a registry changes none of them."""


class PreservedSchemas:
    """Keeps the target's registry in step with the source's: versions, ids, compatibility.

    Args:
        source: The registry of the source.
        target: That of the target; the address may name a context of it.
    """

    def __init__(self, source: Registry, target: Registry) -> None:
        self._source = source
        self._target = target
        self._known: tuple[Known, Known] = ({}, {})

    def compare(self, remote: Mapping[str, str]) -> RegistryDifference:
        """Returns what the target lacks of the schemas of some topics.

        Args:
            remote: The remote topic of each topic whose records carry ids.

        Raises:
            RegistryError: A registry does not answer, or refuses.
        """
        named = partial(on_target, remote=remote)
        subjects = [name for name in self._source.subjects() if topic_of(name, remote.keys())]
        source = _held(self._source, subjects, self._known[0])
        wanted = sorted({named(version.subject) for version in source.versions})
        target = _held(self._target, wanted, self._known[1])
        there = {version.id for version in target.versions}
        ids = {version.id for version in source.versions} - there
        by_id = {number: schema for number in ids if (schema := self._target.schema(number))}
        return difference(source, Held(target.versions, by_id, target.compatibility), named)

    def register(self, found: RegistryDifference) -> None:
        """Registers at the target what it lacks by *found*, which has no conflicts.

        Raises:
            RegistryError: A registry does not answer, or refuses. What was registered stays.
        """
        for subject in dict.fromkeys(version.subject for version in found.missing):
            if self._target.mode(subject) != IMPORT:
                self._target.begin_import(subject)
        for version in found.missing:
            self._target.put(version)
        for subject, level in found.levels.items():
            self._target.set_compatibility(subject, level)


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


def _held(registry: Registry, subjects: Iterable[str], known: Known) -> Held:
    """Returns what *registry* holds of *subjects*, and of the subjects that they refer to."""
    versions: list[Version] = []
    levels: dict[str, str] = {}
    left, seen = list(subjects), set[str]()
    while left:
        subject = left.pop()
        if subject in seen:
            continue
        seen.add(subject)
        for number in registry.versions(subject):
            if (subject, number) not in known:
                known[subject, number] = registry.version(subject, number)
            version = known[subject, number]
            versions.append(version)
            left += [reference.subject for reference in version.schema.references]
        if (level := registry.compatibility(subject)) is not None:
            levels[subject] = level
    return Held(tuple(versions), compatibility=levels)


class TranslatedSchemas:
    """Registers single schemas of the source at the target, which gives them ids of its own.

    Args:
        source: The registry of the source.
        target: That of the target.
    """

    def __init__(self, source: Registry, target: Registry) -> None:
        self._source = source
        self._target = target

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
        schema = self._source.schema(number)
        if schema is None:
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
        """Registers a schema of the source under a *subject* of the target."""
        references = []
        for one in schema.references:
            needed = self._source.version(one.subject, one.version).schema
            there = self._registered(named(one.subject), needed, named)
            references.append(Reference(one.name, there.subject, there.number))
        own = Schema(schema.text, schema.kind, tuple(references), schema.contract)
        number = self._target.register(subject, own)
        found = self._target.lookup(subject, own)
        return found or Version(subject, 0, number, own)
