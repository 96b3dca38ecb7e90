"""Checks that need more than one value: per cluster, per flow, per pair of flows. Pure."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from replication.config.clients.java_keys import Role
from replication.config.clients.librdkafka import convert
from replication.config.flow_values import FlowValues
from replication.config.scopes import Scopes
from replication.config.tree import FlowConfig
from replication.config.values import Diagnostics
from replication.mm2.filters import NameFilter
from replication.mm2.policy import IdentityPolicy
from replication.model import Location

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_TOPIC_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._-]+")
_CONTROL_ROLES: Final[tuple[Role, ...]] = ("admin", "consumer")  # through librdkafka
_SIDES: Final[tuple[Location, ...]] = ("source", "target")


def check_bootstrap(alias: str, scopes: Scopes, findings: Diagnostics) -> None:
    """Checks that cluster *alias* says where its brokers are."""
    if "bootstrap.servers" not in scopes.by_cluster[alias]:
        findings.problem(
            f"{alias}.bootstrap.servers", "missing; write for example broker-1:9092,broker-2:9092"
        )


def check_flow(values: FlowValues, config: FlowConfig, findings: Diagnostics) -> None:
    """Checks what one flow's values mean together."""
    if not config.topics:
        findings.problem(
            values.key("topics"),
            "is empty; give at least one name or regex, '.*' takes every topic",
        )
    for side, alias in zip(_SIDES, (config.flow.source, config.flow.target), strict=True):
        if _wants_gssapi(values.client(side, "admin")):
            findings.note(
                f"{alias}.sasl.mechanism",
                "GSSAPI needs a confluent-kafka built with it; PyPI's wheel has none",
            )
        for role in _CONTROL_ROLES:
            for problem in convert(values.client(side, role))[1]:
                key, _, text = problem.partition(": ")
                findings.problem(f"{alias}.{key}", text)


def _wants_gssapi(java: Mapping[str, str]) -> bool:
    """Whether the client would use Kerberos: Kafka's default where SASL names no mechanism."""
    sasl = java.get("security.protocol", "").upper().startswith("SASL_")
    return sasl and java.get("sasl.mechanism", "GSSAPI").upper() == "GSSAPI"


def check_pair(one: FlowConfig, other: FlowConfig, findings: Diagnostics) -> None:
    """Checks that two flows can run side by side."""
    """Two flows that would write the same topics, or that would feed each other for ever."""
    if not (isinstance(one.policy, IdentityPolicy) and isinstance(other.policy, IdentityPolicy)):
        return
    a, b = one.flow, other.flow
    if a.target == b.target:
        if both := _shared_names(one, other):
            findings.problem(
                f"{b}.topics",
                f"{', '.join(both)} would be written by {a} too, and a topic has one writer; "
                f"put it into {b}.topics.exclude",
            )
    elif (a.source, a.target) == (b.target, b.source):
        shared = set(one.topics) & set(other.topics)
        if both := sorted({*_shared_names(one, other), *shared}):
            findings.problem(
                f"{b}.topics",
                f"{', '.join(both)} would go from {a} back to {a.source} and round for ever under "
                f"IdentityReplicationPolicy; put it into {b}.topics.exclude",
            )


def _shared_names(one: FlowConfig, other: FlowConfig) -> list[str]:
    """Topic names, written out in one flow's list, that both flows take."""
    names = {item for item in (*one.topics, *other.topics) if _TOPIC_CHARACTERS.fullmatch(item)}
    filters = [NameFilter(flow.topics, flow.topics_exclude) for flow in (one, other)]
    return sorted(name for name in names if all(filter_.accepts(name) for filter_ in filters))


def state_dir_uri(given: str, findings: Diagnostics) -> str:
    """The state directory as a URI; an absolute path becomes ``file:``."""
    if given.startswith("/"):
        return PurePosixPath(given).as_uri()
    if not _URI.fullmatch(given):
        findings.problem(
            "state.dir", f"{given!r} is relative; write an absolute path or a URI such as s3a://.."
        )
    return given


def local_state_problem(state_dir: str, master: str) -> str | None:
    """The problem of a local *state_dir* on a cluster, where the driver may start on any node."""
    if master.startswith("local") or not state_dir.startswith("file:"):
        return None
    return (
        f"state.dir: {state_dir} is a local folder, but the Spark master is {master}; write a "
        "directory that every node reaches, such as hdfs:///replication"
    )
