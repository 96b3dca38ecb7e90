"""What a configuration of nothing but addresses and one flow has beside the keys' own defaults."""

from dataclasses import replace

from replication.config.group_settings import HeartbeatsConfig
from replication.config.schema_settings import RegistryConfig
from replication.config.tree import ClusterConfig
from replication.mm2.policy import PrefixPolicy
from replication.model import Flow
from replication.schemas.values import KnownIds
from tests.support.settings import ONE_FLOW, parse_settings

NO_REGISTRY = RegistryConfig(urls=(), user="", trusted="", own="", password="")


def heartbeats(flow: str, alias: str, servers: str) -> HeartbeatsConfig:
    """The default heartbeats of a pair."""
    return HeartbeatsConfig(
        flow=Flow(*flow.split("->")),
        alias=alias,
        policy=PrefixPolicy(),
        interval_seconds=1,
        replication_factor=3,
        producer={"bootstrap.servers": servers},
        admin={"bootstrap.servers": servers},
    )


def cluster(alias: str, servers: str) -> ClusterConfig:
    """A cluster of which the file gives the addresses only."""
    properties = {"bootstrap.servers": servers}
    return ClusterConfig(alias=alias, consumer=properties, producer=properties, admin=properties)


def test_one_flow_runs_and_heartbeats_go_both_ways() -> None:
    config = parse_settings(ONE_FLOW)

    assert config == replace(
        config,
        file="c.yaml",
        clusters=("A", "B"),
        state_dir="file:///state",
        hadoop={},
        other_flows=(),
        heartbeats=(heartbeats("A->B", "B", "b:1"), heartbeats("B->A", "A", "a:1")),
        warnings=(),
        notes=(),
    )
    assert [str(flow.flow) for flow in config.flows] == ["A->B"]


def test_the_fields_that_are_more_than_a_value_are_as_in_mirrormaker() -> None:
    (flow,) = parse_settings(ONE_FLOW).flows

    assert flow == replace(
        flow,
        flow=Flow("A", "B"),
        source=cluster("A", "a:1"),
        target=cluster("B", "b:1"),
        topic_filter=None,
        policy=PrefixPolicy(),
        tasks_max=None,
        limits=(),
        transforms=(),
        groups=replace(flow.groups, group_filter=None),
        topic_configs=replace(flow.topic_configs, setting_filter=None),
        letters=replace(flow.letters, letters_topic="A.dead-letters.internal"),
        status=replace(flow.status, storage_topic="mm2-status.A.internal"),
        schemas=replace(flow.schemas, source_registry=NO_REGISTRY, target_registry=NO_REGISTRY),
        schema_ids=KnownIds(),
        source_own_topics=frozenset({"mm2-status.B.internal"}),
        target_letter_topics=frozenset(),
        written_by={},
    )
