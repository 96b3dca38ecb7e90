"""``import``: a file of MirrorMaker 2, SRM, Strimzi or Connect becomes this mirror's YAML.

References to secrets stay references: nothing is resolved.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import yaml

from replication.cli.options import FILE, echo, known_errors
from replication.config.client_keys import JAVA_KEYS, MASK, is_secret
from replication.config.field_keys import scope_of, translate
from replication.config.file import read_bytes, setting_line, yaml_scalar
from replication.config.flat import flat_settings
from replication.config.scopes import sort_settings
from replication.config.values import Diagnostics, Raw, items, text
from replication.errors import ConfigError, printable
from replication.mm2.single_message_transforms import CHAIN, belongs

# Writes flat settings of MirrorMaker 2 or SRM as this mirror's YAML, with comments.
#
# The YAML means the same as the settings. What has no effect becomes a comment with the reason.


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Settings to be written, and what belongs above each of them.

    Args:
        values: Full key -> value.
        comments: Full key -> lines to be written above it, without ``#``.
        remarks: Lines for the head of the file.
        positions: Flow -> the topic on its target in which MirrorMaker 2 stored its positions.
    """

    values: Mapping[str, Raw]
    comments: Mapping[str, list[str]] = field(default_factory=dict)
    remarks: Iterable[str] = ()
    positions: Mapping[str, str] = field(default_factory=dict)


def to_yaml(origin: str, settings: FileSettings) -> str:
    referring = {key for key, raw in settings.values.items() if "${" in text(raw)}
    found = Diagnostics(unresolved=referring)  # such a value is known when the file is read
    sort_settings(found, settings.values)
    unused = found.without_effect
    keys = translate(Diagnostics(), settings.values)
    aliases = items(settings.values.get("clusters", ""))
    written = {new: old for old, new in _written(settings.values, keys, found).items()}
    kept = {key: raw for key, raw in keys.items() if written.get(key, key) not in unused}
    lines = [f"# Converted from {printable(origin)} by python -m replication import."]
    lines.append("# How to go on where MirrorMaker 2 stopped: conf/docs/migrate.md.")
    lines += [f"# {printable(remark)}" for remark in settings.remarks]
    lines += [f"# To do: {problem}" for problem in found.problems]
    lines += [f"# {warning}" for warning in _of_chains(found, aliases)]
    for scope in _scopes(kept, aliases):
        lines.append("")
        if scope:
            lines.append(f"{yaml_scalar(scope.removesuffix('.'))}:")
        for key, raw in kept.items():
            if _normal(scope_of(key, aliases)) != scope:
                continue
            indent, name = "  " if scope else "", key[len(scope_of(key, aliases)) :]
            old = written.get(key, key)
            lines += [f"{indent}# {printable(line)}" for line in settings.comments.get(old, ())]
            lines.append(f"{indent}{setting_line(name, raw)}")
        lines += _take_over(settings.positions.get(scope.removesuffix(".")))
    if unused:
        lines += ["", "# Without effect here:"]
        lines += [
            f"#   {printable(key)}: {_shown(key, settings.values[key])}   ({reason})"
            for key, reason in unused.items()
            if key in settings.values
        ]
    return "\n".join(lines) + "\n"


def _of_chains(found: Diagnostics, aliases: tuple[str, ...]) -> Iterator[str]:
    """Yields how copies differ from MirrorMaker 2's by a chain, whose own keys are gone."""
    for warning in found.warnings:
        key = warning.partition(": ")[0]
        if key not in found.without_effect and belongs(key.removeprefix(scope_of(key, aliases))):
            yield warning


def _take_over(topic: str | None) -> Iterator[str]:
    """Yields how a flow would go on where MirrorMaker 2 stopped; a comment, for one start only."""
    if topic:
        yield "  # For the first start, if the remote topics do not show where MirrorMaker 2 ended:"
        yield f"  # replication.takeover.topic: {yaml_scalar(topic)}"


def _shown(key: str, raw: Raw) -> str:
    return MASK if is_secret(key) else printable(text(raw))


def _written(
    values: Mapping[str, Raw], keys: Mapping[str, Raw], found: Diagnostics
) -> dict[str, str]:
    """Returns the key of the file -> the key that is written, where they differ."""
    return {old: new for new, old in found.written.items() if old in values and new in keys}


def _scopes(keys: Iterable[str], aliases: tuple[str, ...]) -> Iterator[str]:
    scopes = {_normal(scope_of(key, aliases)) for key in keys}
    yield from sorted(scopes, key=lambda scope: ("->" in scope, scope))


def _normal(scope: str) -> str:
    return "->".join(part.strip() for part in scope.split("->"))


# Reads Strimzi's resources (KafkaMirrorMaker2, KafkaConnector) and connectors of Kafka Connect.
#
# Pure: documents in, settings in MirrorMaker 2's key space out. Secrets of Kubernetes become
# references to files, under the folder where a pod mounts them.

SECRETS: Final = "/etc/replication/secrets"
"""Where the converted file expects the secrets to be mounted, one folder for each."""

Document = Mapping[str, Any]

_CONNECTORS: Final = {
    "MirrorSourceConnector": "sourceConnector",
    "MirrorCheckpointConnector": "checkpointConnector",
    "MirrorHeartbeatConnector": "heartbeatConnector",
}
_PATTERNS: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
STORAGE: Final = "offset.storage.topic"
"""The key of a Connect worker that names the topic with its positions."""

CLASS: Final = "connector.class"
_OFFSETS: Final = "mirrormaker2-cluster-offsets"
"""The operator's default for the topic in which a KafkaMirrorMaker2 stores its positions."""

# What the fields of each object are read for; all others are named in a remark.
_READ: Final = {
    "spec": "clusters target mirrors",
    "cluster": "alias bootstrapServers tls authentication config offsetStorageTopic",
    "tls": "trustedCertificates",
    "certificate": "secretName certificate pattern",
    "authentication": "type username passwordSecret certificateAndKey sasl config",
    "mirror": "source sourceCluster targetCluster",
    "connector": "config state pause class",
    "document": "apiVersion kind metadata spec status name config initial_state state type",
}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISMS: Final = {
    "plain": ("PLAIN", _PLAIN),
    "scram-sha-256": ("SCRAM-SHA-256", _SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", _SCRAM),
}


def is_resource(document: object) -> bool:
    """Returns whether *document* is a resource of Strimzi, or a connector of Kafka Connect."""
    if not isinstance(document, Mapping):
        return False
    config = document.get("config")
    return (
        document.get("kind") in ("KafkaMirrorMaker2", "KafkaConnector")
        or (isinstance(config, Mapping) and CLASS in config)
        or isinstance(document.get(CLASS), str)  # the body of PUT /connectors/NAME/config
    )


def from_resources(documents: Sequence[Document]) -> FileSettings:
    found = _Found()
    for document in documents:
        if document.get("kind") == "KafkaMirrorMaker2":
            found.add_mirror_maker(document.get("spec") or {})
        elif is_resource(document):
            found.add_connector(document)
    return found.settings()


class _Found:
    def __init__(self) -> None:
        self.aliases: dict[str, None] = {}
        self.values: dict[str, Raw] = {}
        self.remarks: list[str] = []
        self.parts: dict[str, set[str]] = {}
        self.positions: dict[str, str] = {}
        self.paused: dict[tuple[str, str], str] = {}
        self.unread: dict[str, None] = {}

    def settings(self) -> FileSettings:
        if not self.parts:
            raise ValueError("describes no flow: there is no mirror and no MirrorSourceConnector")
        for flow, parts in self.parts.items():
            self.enable(flow, parts)
        self.remarks += (
            f"The {part} of {flow} is {state}, so what it does is disabled."
            for (flow, part), state in self.paused.items()
        )
        if self.unread:
            self.remarks.append(f"Fields without a meaning here: {', '.join(self.unread)}.")
        first: dict[str, Raw] = {"clusters": tuple(self.aliases)}
        first["emit.heartbeats.enabled"] = "false"
        self.remarks.append(
            "Heartbeats and checkpoints are emitted where a connector for them did so."
        )
        values = {**first, **self.values}
        return FileSettings(values, remarks=self.remarks, positions=self.positions)

    def enable(self, flow: str, parts: set[str]) -> None:
        """Enables what the connectors for *parts* of *flow* do, unless they are paused."""
        running = {part for part in parts if (flow, part) not in self.paused}
        self.values[f"{flow}.enabled"] = _flag("sourceConnector" in running)
        if "checkpointConnector" not in running:
            self.values[f"{flow}.emit.checkpoints.enabled"] = "false"
        if "checkpointConnector" in parts - running:
            self.values[f"{flow}.sync.group.offsets.enabled"] = "false"
        if "heartbeatConnector" in running:
            self.values.setdefault(f"{flow}.emit.heartbeats.enabled", "true")

    def note_unread(self, kind: str, given: Document, *more: str) -> None:
        known = {*_READ[kind].split(), *more}
        self.unread |= dict.fromkeys(f"{kind}.{name}" for name in given if name not in known)

    def note_state(self, flow: str, part: str, given: Document) -> None:
        state = str(given.get("state") or given.get("initial_state") or "running").lower()
        if state == "running" and given.get("pause") is True:
            state = "paused"
        if state in ("paused", "stopped"):
            self.paused[flow, part] = state

    def put(self, key: str, value: object) -> None:
        """Sets *key*; if another connector has a different value, drops that with a remark."""
        text = _flag(value) if isinstance(value, bool) else "" if value is None else str(value)
        if (first := self.values.setdefault(key, text)) != text:
            kept, dropped = (MASK if is_secret(key) else repr(value) for value in (first, text))
            self.remarks.append(f"{key}: two connectors differ; {kept} is kept, not {dropped}")

    def put_of(self, flow: str, part: str, key: str, value: object) -> None:
        """Sets *key* of *flow* as its connector *part* has it; a chain is of records only."""
        if part == "sourceConnector" or not belongs(key):
            self.put(f"{flow}.{key}", value)
        elif key == CHAIN and value:
            self.remarks.append(
                f"To do: {flow} has transforms of the {part}, which were left out: what it writes "
                "is as MirrorMaker 2's clients read it, and only records have transforms here."
            )

    def add_mirror_maker(self, spec: Document) -> None:
        self.note_unread("spec", spec)
        clusters: Iterable[Document] = spec.get("clusters") or ()
        target = spec.get("target") or {}
        for cluster in (*clusters, *([target] if target else ())):
            self.add_cluster(cluster)
        for mirror in spec.get("mirrors") or ():
            self.note_unread("mirror", mirror, *_CONNECTORS.values(), *_PATTERNS)
            if source := mirror.get("source"):
                self.add_cluster(source)
            ends = (
                mirror.get("sourceCluster") or (source or {}).get("alias"),
                mirror.get("targetCluster") or target.get("alias"),
            )
            missing = "a mirror without source or target; add sourceCluster and targetCluster to it"
            flow = "->".join(_named(alias, missing) for alias in ends)
            parts = self.parts.setdefault(flow, set())
            for part in _CONNECTORS.values():
                if (connector := mirror.get(part)) is not None:
                    parts.add(part)
                    self.note_unread("connector", connector)
                    self.note_state(flow, part, connector)
                    for key, value in (connector.get("config") or {}).items():
                        self.put_of(flow, part, key, value)
            if "sourceConnector" in parts:
                own = self.values.get(f"{ends[1]}.{STORAGE}")
                self.positions[flow] = str(target.get("offsetStorageTopic") or own or _OFFSETS)
            for pattern, key in _PATTERNS.items():
                if pattern in mirror:
                    self.put(f"{flow}.{key}", mirror[pattern])

    def add_cluster(self, cluster: Document) -> None:
        alias = _named(cluster.get("alias"), "a cluster without alias; add alias to it")
        self.note_unread("cluster", cluster)
        self.aliases[alias] = None
        self.put(f"{alias}.bootstrap.servers", cluster.get("bootstrapServers"))
        authentication, tls = cluster.get("authentication") or {}, cluster.get("tls")
        kind = authentication.get("type")
        if tls is not None or kind:
            is_sasl = kind and kind != "tls" and authentication.get("sasl") is not False
            sasl = "SASL_" if is_sasl else ""
            transport = "SSL" if tls is not None else "PLAINTEXT"
            self.put(f"{alias}.security.protocol", sasl + transport)
        self.note_unread("tls", tls or {})
        self.add_certificates(alias, (tls or {}).get("trustedCertificates") or ())
        self.add_authentication(alias, kind, authentication)
        for key, value in (cluster.get("config") or {}).items():
            self.put(f"{alias}.{key}", value)

    def add_certificates(self, alias: str, certificates: Sequence[Document]) -> None:
        """Sets the certificates by which *alias* is trusted: one file, or the texts of several."""
        paths = []
        for certificate in certificates:
            self.note_unread("certificate", certificate)
            secret = certificate.get("secretName")
            paths.append(f"{SECRETS}/{secret}/{certificate.get('certificate') or 'ca.crt'}")
            self.remarks.append(f"Mount secret {secret} under {SECRETS}.")
            if not certificate.get("certificate"):
                self.remarks.append(
                    f"To do: secret {secret} names its certificates by the pattern "
                    f"{certificate.get('pattern')!r}; ca.crt, Strimzi's own name, is assumed."
                )
        if not paths:
            return
        self.put(f"{alias}.ssl.truststore.type", "PEM")
        if len(paths) == 1:
            self.put(f"{alias}.ssl.truststore.location", paths[0])
        else:
            texts = "\n".join(f"${{file:{path}}}" for path in paths)
            self.put(f"{alias}.ssl.truststore.certificates", texts)

    def add_authentication(self, alias: str, kind: str | None, given: Document) -> None:
        if kind == "custom":
            self.note_unread("authentication", given)
            for key, value in (given.get("config") or {}).items():
                self.put(f"{alias}.{key}", value)
        elif kind in _MECHANISMS:
            mechanism, module = _MECHANISMS[kind]
            secret = given.get("passwordSecret") or {}
            password = f"${{file:{SECRETS}/{secret.get('secretName')}/{secret.get('password')}}}"
            self.put(f"{alias}.sasl.mechanism", mechanism)
            self.put(
                f"{alias}.sasl.jaas.config",
                f'{module} required username="{given.get("username")}" password="{password}";',
            )
            self.remarks.append(f"Mount secret {secret.get('secretName')} under {SECRETS}.")
        elif kind == "tls":
            pair = given.get("certificateAndKey") or {}
            folder = f"{SECRETS}/{pair.get('secretName')}"
            self.put(f"{alias}.ssl.keystore.type", "PEM")
            chain, key = f"{folder}/{pair.get('certificate')}", f"{folder}/{pair.get('key')}"
            self.put(f"{alias}.ssl.keystore.certificate.chain", f"${{file:{chain}}}")
            self.put(f"{alias}.ssl.keystore.key", f"${{file:{key}}}")
            self.remarks.append(f"Mount secret {pair.get('secretName')} under {SECRETS}.")
        elif kind:
            self.remarks.append(
                f"To do: the authentication {kind!r} of {alias}; write {alias}.sasl.mechanism and "
                f"{alias}.sasl.jaas.config. Its fields: {', '.join(sorted(given))}"
            )

    def add_connector(self, document: Document) -> None:
        spec = document.get("spec") or document
        config: dict[str, Any] = dict(document if CLASS in document else spec.get("config") or {})
        if CLASS not in document:
            self.note_unread("document", document)
        if "spec" in document:
            self.note_unread("connector", spec)
        name = str(spec.get("class") or config.get(CLASS, "")).rpartition(".")[2]
        config.pop(CLASS, None)
        if name not in _CONNECTORS:
            self.remarks.append(f"A connector of class {name!r} was left out.")
            return
        aliases = [str(config.pop(f"{side}.cluster.alias", side)) for side in ("source", "target")]
        flow = "->".join(aliases)
        self.aliases |= dict.fromkeys(aliases)
        self.parts.setdefault(flow, set()).add(_CONNECTORS[name])
        self.note_state(flow, _CONNECTORS[name], spec)
        if config.pop("clusters", None) is not None:
            self.remarks.append("clusters was left out: the aliases of a connector count.")
        if _CONNECTORS[name] == "sourceConnector":
            self.remarks.append(
                f"Where the remote topics of {flow} do not tell where the connector stopped, write "
                f"{flow}.replication.takeover.topic for the first start: the {STORAGE} of the "
                "Connect cluster."
            )
        for key, value in config.items():
            side, is_cluster, rest = key.partition(".cluster.")
            if is_cluster and side in ("source", "target") and rest in JAVA_KEYS:
                self.put(f"{aliases[side == 'target']}.{rest}", value)
            else:
                self.put_of(flow, _CONNECTORS[name], key, value)


def _named(alias: object, missing: str) -> str:
    if alias is None:
        raise ValueError(f"describes {missing}")
    return str(alias)


def _flag(value: object) -> str:
    return "true" if value else "false"


_KINDS: Final = (b"kafka.strimzi.io", b"connector.class", b"KafkaMirrorMaker2")


def converted(file: str) -> str:
    """Returns the text of a YAML configuration that means the same as *file*.

    Raises:
        ConfigError: *file* cannot be read, or holds nothing that can be converted.
    """
    content = read_bytes(file)
    try:
        return to_yaml(Path(file).name, _settings(file, content))
    except ValueError as error:
        raise ConfigError(file, [str(error)]) from error


def resources(content: bytes) -> list[Mapping[str, Any]]:
    """Returns the resources of Strimzi or connectors of Kafka Connect in *content*."""
    if not any(kind in content for kind in _KINDS):
        return []
    try:
        documents = list(yaml.safe_load_all(content))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    documents = [one for document in documents for one in _expanded(document)]
    listed = [
        item
        for document in documents
        for item in (document if isinstance(document, list) else [document])
    ]
    return [document for document in listed if is_resource(document)]


# of GET /connectors?expand=info&expand=status; another document as it is
def _expanded(document: object) -> Iterable[object]:
    if not isinstance(document, dict):
        return [document]
    infos = {
        name: entry["info"]
        for name, entry in document.items()
        if isinstance(entry, dict) and is_resource(entry.get("info"))
    }
    states = {
        name: ((document[name].get("status") or {}).get("connector") or {}).get("state")
        for name in infos
    }
    return [{**info, "state": states[name]} for name, info in infos.items()] or [document]


def _settings(file: str, content: bytes) -> FileSettings:
    if found := resources(content):
        try:
            return from_resources(found)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"is not a valid resource: {error}") from error
    flat = flat_settings(content, is_properties=file.endswith(".properties"))
    if flat.problems:
        raise ConfigError(file, flat.problems)
    if CLASS in flat.settings:  # a file of connect-standalone
        return from_resources([{key: text(raw) for key, raw in flat.settings.items()}])
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    comments = {key: _comment_above(lines, line) for key, line in flat.lines.items()}
    return FileSettings(flat.settings, comments, flat.warnings, _positions(flat.settings))


def _positions(values: Mapping[str, Raw]) -> dict[str, str]:
    """Returns for each enabled flow the topic in which MirrorMaker 2 stores its positions."""
    found: dict[str, str] = {}
    for key, raw in values.items():
        flow, _, name = key.rpartition(".")
        source, arrow, target = (part.strip() for part in flow.partition("->"))
        if arrow and name == "enabled" and text(raw).strip().lower() == "true":
            own = values.get(STORAGE) or values.get(f"{target}.{STORAGE}")
            found[f"{source}->{target}"] = text(own) if own else f"mm2-offsets.{source}.internal"
    return found


def _comment_above(lines: list[str], number: int) -> list[str]:
    """Returns the comment that ends in the line above the line *number*, without its signs."""
    found: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith(("#", "!")):
            break
        found.append(line.strip().lstrip("#! "))
    return [line for line in reversed(found) if line]


@click.command("import")
@FILE
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, which must not exist; default: stdout.",
)
@known_errors
def import_(file: str, output: Path | None) -> None:
    """Convert FILE to this mirror's YAML, with comments.

    FILE is an mm2.properties file, a configuration of Cloudera's SRM, Strimzi's KafkaMirrorMaker2
    or KafkaConnector resources, or connectors of Kafka Connect in JSON.
    """
    text = converted(file)
    if output is None:
        click.echo(text.encode(), nl=False)  # a file for the mirror is UTF-8, whatever the locale
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(str(output), [f"cannot be written: {error.strerror}"]) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    echo(f"{output}: check it with python -m replication validate", err=True)
