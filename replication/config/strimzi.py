"""Reads Strimzi's resources (KafkaMirrorMaker2, KafkaConnector) and connectors of Kafka Connect.

Pure: documents in, settings in MirrorMaker 2's key space out. Secrets of Kubernetes become
references to files, under the folder where a pod mounts them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from replication.config.clients.java_keys import JAVA_KEYS
from replication.config.clients.secrets import MASK, is_secret
from replication.config.to_yaml import Settings

if TYPE_CHECKING:
    from replication.config.values import Raw

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

_OFFSETS: Final = "mirrormaker2-cluster-offsets"
"""The operator's default for the topic in which a KafkaMirrorMaker2 stores its positions."""

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISMS: Final = {
    "plain": ("PLAIN", _PLAIN),
    "scram-sha-256": ("SCRAM-SHA-256", _SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", _SCRAM),
}


def is_resource(document: object) -> bool:
    """Whether *document* is a resource of Strimzi, or a connector of Kafka Connect."""
    if not isinstance(document, Mapping):
        return False
    return document.get("kind") in ("KafkaMirrorMaker2", "KafkaConnector") or (
        isinstance(document.get("config"), Mapping) and "connector.class" in document["config"]
    )


def from_resources(documents: Sequence[Document]) -> Settings:
    """The settings that *documents* describe together.

    Raises:
        ValueError: None of them describes a flow; the text says what is missing.
    """
    found = _Found()
    for document in documents:
        if document.get("kind") == "KafkaMirrorMaker2":
            found.add_mirror_maker(document.get("spec") or {})
        elif is_resource(document):
            found.add_connector(document)
    return found.settings()


class _Found:
    """What was read so far."""

    def __init__(self) -> None:
        self.aliases: dict[str, None] = {}
        self.values: dict[str, Raw] = {}
        self.remarks: list[str] = []
        self.parts: dict[str, set[str]] = {}
        self.positions: dict[str, str] = {}

    def settings(self) -> Settings:
        if not self.parts:
            raise ValueError("describes no flow: there is no mirror and no MirrorSourceConnector")
        for flow, parts in self.parts.items():
            self.values[f"{flow}.enabled"] = _flag("sourceConnector" in parts)
            if "checkpointConnector" not in parts:
                self.values[f"{flow}.emit.checkpoints.enabled"] = "false"
            if "heartbeatConnector" in parts:
                self.values.setdefault(f"{flow}.emit.heartbeats.enabled", "true")
        first: dict[str, Raw] = {"clusters": tuple(self.aliases)}
        first["emit.heartbeats.enabled"] = "false"
        self.remarks.append("Heartbeats are emitted where a heartbeat connector did so.")
        values = {**first, **self.values}
        return Settings(values, remarks=self.remarks, positions=self.positions)

    def put(self, key: str, value: object) -> None:
        """Sets *key*; a second connector's different value is remarked and dropped."""
        text = _flag(value) if isinstance(value, bool) else "" if value is None else str(value)
        if (first := self.values.setdefault(key, text)) != text:
            kept, dropped = (MASK if is_secret(key) else repr(value) for value in (first, text))
            self.remarks.append(f"{key}: two connectors differ; {kept} is kept, not {dropped}")

    def add_mirror_maker(self, spec: Document) -> None:
        clusters: Iterable[Document] = spec.get("clusters") or ()
        target = spec.get("target") or {}
        for cluster in (*clusters, *([target] if target else ())):
            self.add_cluster(cluster)
        for mirror in spec.get("mirrors") or ():
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
                    for key, value in (connector.get("config") or {}).items():
                        self.put(f"{flow}.{key}", value)
            if "sourceConnector" in parts:
                own = self.values.get(f"{ends[1]}.{STORAGE}")
                self.positions[flow] = str(target.get("offsetStorageTopic") or own or _OFFSETS)
            for pattern, key in _PATTERNS.items():
                if pattern in mirror:
                    self.put(f"{flow}.{key}", mirror[pattern])

    def add_cluster(self, cluster: Document) -> None:
        alias = _named(cluster.get("alias"), "a cluster without alias; add alias to it")
        self.aliases[alias] = None
        self.put(f"{alias}.bootstrap.servers", cluster.get("bootstrapServers"))
        authentication, tls = cluster.get("authentication") or {}, cluster.get("tls")
        kind = authentication.get("type")
        if tls is not None or kind:
            sasl = "SASL_" if kind and kind != "tls" else ""
            transport = "SSL" if tls is not None else "PLAINTEXT"
            self.put(f"{alias}.security.protocol", sasl + transport)
        for certificate in ((tls or {}).get("trustedCertificates") or ())[:1]:
            name = certificate.get("certificate") or "ca.crt"  # of a pattern, Strimzi's own name
            self.put(f"{alias}.ssl.truststore.type", "PEM")
            path = f"{SECRETS}/{certificate.get('secretName')}/{name}"
            self.put(f"{alias}.ssl.truststore.location", path)
            self.remarks.append(f"Mount secret {certificate.get('secretName')} under {SECRETS}.")
        self.add_authentication(alias, kind, authentication)
        for key, value in (cluster.get("config") or {}).items():
            self.put(f"{alias}.{key}", value)

    def add_authentication(self, alias: str, kind: str | None, given: Document) -> None:
        if kind in _MECHANISMS:
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
                f"{alias}.sasl.jaas.config"
            )

    def add_connector(self, document: Document) -> None:
        spec = document.get("spec") or document
        config: dict[str, Any] = dict(spec.get("config") or {})
        name = str(spec.get("class") or config.pop("connector.class", "")).rpartition(".")[2]
        config.pop("connector.class", None)
        if name not in _CONNECTORS:
            self.remarks.append(f"A connector of class {name!r} was left out.")
            return
        aliases = [str(config.pop(f"{side}.cluster.alias", side)) for side in ("source", "target")]
        flow = "->".join(aliases)
        self.aliases |= dict.fromkeys(aliases)
        self.parts.setdefault(flow, set()).add(_CONNECTORS[name])
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
                self.put(f"{flow}.{key}", value)


def _named(alias: object, missing: str) -> str:
    """*alias* as text.

    Raises:
        ValueError: There is none; *missing* says where, and what to write.
    """
    if alias is None:
        raise ValueError(f"describes {missing}")
    return str(alias)


def _flag(value: object) -> str:
    return "true" if value else "false"
