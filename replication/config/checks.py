"""Checks that involve more than one value: per cluster, per flow. Pure."""

import re
from typing import Final

from replication.config.client_properties import SERVERS_EXAMPLE
from replication.config.clients.jaas_problems import find_jaas_problem
from replication.config.clients.java_keys import ROLES
from replication.config.flow_values import FlowValues
from replication.config.scopes import Scopes
from replication.config.values import Diagnostics
from replication.model import Flow, Location

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_TOPIC_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._-]+")
_LOCATIONS: Final[tuple[Location, ...]] = ("source", "target")


def check_clusters(diagnostics: Diagnostics, scopes: Scopes) -> None:
    """Checks that every cluster has broker addresses, and that at least one flow is enabled."""
    for alias in scopes.clusters:
        if "bootstrap.servers" not in scopes.by_cluster[alias]:
            diagnostics.problem(
                f"{alias}.bootstrap.servers", f"missing; write for example {SERVERS_EXAMPLE}"
            )
    flags = [FlowValues(scopes, flow).flag("enabled") for flow in scopes.pairs]
    if scopes.clusters and not any(flags):
        pair = next(iter(scopes.pairs), Flow("A", "B"))
        diagnostics.problem(f"{pair}.enabled", "no flow is enabled; write true for at least one")


def check_flow(diagnostics: Diagnostics, values: FlowValues) -> None:
    """Checks an enabled flow's values in combination."""
    _check_offset_syncs(diagnostics, values)
    _check_separator(diagnostics, values)
    _check_deletions(diagnostics, values)
    if not values.items("topics"):
        diagnostics.problem(
            values.key("topics"),
            "is empty; write at least one name or regex ('.*' matches every topic)",
        )
    for location in _LOCATIONS:
        _check_clients(diagnostics, values, location)


def _check_offset_syncs(diagnostics: Diagnostics, values: FlowValues) -> None:
    if values.flag("emit.offset-syncs.enabled"):
        return
    for settings in (values.own, values.scopes.top):
        for name in settings:
            if name.startswith("offset-syncs.topic."):
                diagnostics.note(
                    values.key(name), "has no effect: emit.offset-syncs.enabled is false"
                )


def _check_separator(diagnostics: Diagnostics, values: FlowValues) -> None:
    name = "replication.policy.separator"
    separator = values.text(name)
    if not _TOPIC_CHARACTERS.fullmatch(separator):
        key = values.key(name)
        displayed = diagnostics.display(key, separator)
        diagnostics.problem(
            key, f"{displayed} is not allowed in a topic name; use A-Z a-z 0-9 . _ -"
        )


def _check_deletions(diagnostics: Diagnostics, values: FlowValues) -> None:
    """Under identity naming a remote topic may have become the original, as after a migration."""
    name = "replication.deletions.enabled"
    if values.flag(name) and values.is_identity:
        diagnostics.problem(
            values.key(name),
            "is not possible under IdentityReplicationPolicy, where a remote topic cannot be told "
            "from the target's own topics; write false",
        )


def _check_clients(diagnostics: Diagnostics, values: FlowValues, location: Location) -> None:
    """Checks that a client can log in to the cluster at *location*."""
    problems = {find_jaas_problem(values.client(location, role)) for role in ROLES}
    for problem in sorted(filter(None, problems)):
        diagnostics.problem(f"{values.alias(location)}.sasl.jaas.config", problem)


def check_state_dir(diagnostics: Diagnostics, given: str) -> None:
    """Checks that the state directory is an absolute path or a URI."""
    if not given.startswith("/") and not _URI.fullmatch(given):
        diagnostics.problem(
            "state.dir",
            f"{diagnostics.display('state.dir', given)} is relative; write an absolute path or a "
            "URI such as s3a://bucket/folder",
        )


def local_state_problem(state_dir: str, master: str) -> str | None:
    """The problem of a local *state_dir* on a cluster, where the driver may start on any node."""
    if master.startswith("local") or not state_dir.startswith("file:"):
        return None
    return (
        f"state.dir: {state_dir} is a local folder, but the Spark master is {master}; write a "
        "directory that every node reaches, such as hdfs:///replication"
    )
