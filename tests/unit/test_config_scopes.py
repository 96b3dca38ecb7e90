"""A setting may stand at top level, at a cluster or at a flow, and reaches what it stands at."""

import pytest

from replication.config.group_settings import GroupsConfig, OffsetSyncsConfig, StateConfig
from replication.config.limits import Limit
from replication.config.schema_settings import SchemasConfig, registry_of
from replication.config.topic_settings import (
    AclsConfig,
    DeadLettersConfig,
    DeletionsConfig,
    GuardConfig,
    StatusConfig,
    TopicConfigsConfig,
)
from replication.config.tree import FlowConfig
from replication.mm2.policy import IdentityPolicy
from replication.model import Flow
from replication.schemas.values import KnownIds
from tests.support.settings import IDENTITY, ONE_FLOW, parse_settings


@pytest.mark.parametrize("at", ["", "A->B."])
def test_every_value_can_be_set_at_top_level_or_for_a_flow(at: str) -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            f"{at}topics": "a, b,,a",
            f"{at}topics.exclude": "",
            f"{at}heartbeats.replication.enabled": "FALSE",
            f"{at}replication.policy.class": IDENTITY,
            f"{at}replication.policy.separator": "_",
            f"{at}replication.policy.internal.topic.separator.enabled": "false",
            f"{at}replication.factor": "-1",
            f"{at}refresh.topics.enabled": "false",
            f"{at}refresh.topics.interval.seconds": "5",
            f"{at}replication.mode": "drain",
            f"{at}replication.source": "spark",
            f"{at}tasks.max": "3",
            f"{at}replication.realtime.batch.seconds": "5",
            f"{at}replication.batch.max.records": "1",
            f"{at}replication.drain.empty.allowed": "true",
            f"{at}replication.takeover.topic": "mm2-offsets.A.internal",
            f"{at}replication.limit.bytes.per.second": "20MB",
            f"{at}replication.limit.records.per.second": "5000",
            f"{at}replication.limit.topics": "b 2MB/s 500records/s",
            f"{at}record.timestamps": "broker",
            f"{at}auto.offset.reset": "latest",
            f"{at}state.write.interval.seconds": "9",
            f"{at}state.events.retention.days": "1",
            f"{at}state.checkpoints.retention.days": "2",
            f"{at}state.leases.retention.days": "3",
            f"{at}replication.guard.topics": "a",
            f"{at}replication.guard.records-expired": "skip",
            f"{at}replication.guard.source-truncated": "restart",
            f"{at}replication.guard.source-recreated": "stop",
            f"{at}replication.guard.target-truncated": "skip",
            f"{at}replication.guard.unmatched": "restart",
            f"{at}replication.guard.foreign-records": "fail",
            f"{at}config.properties.exclude": "retention.*",
            f"{at}use.defaults.from": "source",
            f"{at}sync.topic.configs.enabled": "false",
            f"{at}sync.topic.configs.interval.seconds": "7",
            f"{at}sync.topic.acls.enabled": "false",
            f"{at}sync.topic.acls.interval.seconds": "8",
            f"{at}replication.acls.prefixed.enabled": "true",
            f"{at}replication.acls.removal.enabled": "true",
            f"{at}replication.deletions.grace.seconds": "0",
            f"{at}emit.offset-syncs.enabled": "false",
            f"{at}offset-syncs.topic.location": "target",
            f"{at}offset-syncs.topic.replication.factor": "1",
            f"{at}offset.lag.max": "0",
            f"{at}groups": "g",
            f"{at}groups.exclude": "",
            f"{at}refresh.groups.enabled": "false",
            f"{at}refresh.groups.interval.seconds": "2",
            f"{at}emit.checkpoints.enabled": "false",
            f"{at}emit.checkpoints.interval.seconds": "3",
            f"{at}checkpoints.topic.replication.factor": "4",
            f"{at}sync.group.offsets.enabled": "true",
            f"{at}sync.group.offsets.interval.seconds": "5",
            f"{at}sync.group.offsets.on.rewind": "follow",
            "state.dir": " s3a://bucket/state ",
        }
    )

    assert config.state_dir == "s3a://bucket/state"
    (one,) = config.flows
    assert one == FlowConfig(
        flow=Flow("A", "B"),
        topics=("a", "b"),
        topics_exclude=(),
        heartbeats_replication_enabled=False,
        policy=IdentityPolicy("_", ".", source="A"),
        aggregate_topics=(),
        replication_factor=-1,
        refresh_topics_enabled=False,
        refresh_topics_interval_seconds=5,
        mode="drain",
        record_source="spark",
        tasks_max=3,
        limits=(Limit(None, 20_000_000, 5_000), Limit("b", 2_000_000, 500)),
        realtime_batch_seconds=5,
        batch_max_records=1,
        drain_empty_allowed=True,
        takeover_topic="mm2-offsets.A.internal",
        record_timestamps="broker",
        compression="producer",
        has_provenance=False,
        auto_offset_reset="latest",
        schema_ids=KnownIds(),
        schemas=SchemasConfig(
            mode="none",
            topics=(),
            unframed="copy",
            source_registry=registry_of({}),
            target_registry=registry_of({}),
        ),
        status=StatusConfig(
            storage_topic="mm2-status.A.internal",
            partitions=5,
            replication_factor=3,
            interval_seconds=5,
            slo_lag_seconds=30,
        ),
        source_own_topics=frozenset({"mm2-status.B.internal"}),
        target_letter_topics=frozenset(),
        state=StateConfig(
            write_interval_seconds=9,
            retention_days={
                "events": 1,
                "checkpoints": 2,
                "leases": 3,
                "executions": 30,
                "figures": 30,
            },
        ),
        letters=DeadLettersConfig(kind="none", letters_topic="A.dead-letters.internal", most=10),
        guard=GuardConfig(
            topics=("a",),
            policies={
                "records-expired": "skip",
                "source-truncated": "restart",
                "source-recreated": "stop",
                "target-truncated": "skip",
                "unmatched": "restart",
                "foreign-records": "fail",
                "copies-expired": "fail",
            },
        ),
        topic_configs=TopicConfigsConfig(
            exclude=("retention.*",),
            defaults_from="source",
            sync_enabled=False,
            sync_interval_seconds=7,
        ),
        acls=AclsConfig(sync_enabled=False, sync_interval_seconds=8, prefixed=True, removal=True),
        deletions=DeletionsConfig(enabled=False, grace_seconds=0),
        offset_syncs=OffsetSyncsConfig(
            enabled=False, location="target", replication_factor=1, lag_max=0
        ),
        groups=GroupsConfig(
            groups=("g",),
            groups_exclude=(),
            refresh_enabled=False,
            refresh_interval_seconds=2,
            checkpoints_enabled=False,
            checkpoints_interval_seconds=3,
            replication_factor=4,
            sync_enabled=True,
            sync_interval_seconds=5,
            sync_on_rewind="follow",
        ),
        source=one.source,
        target=one.target,
    )


def test_an_alias_may_contain_dots_and_be_a_prefix_of_another() -> None:
    config = parse_settings(
        {
            "clusters": "eu,eu.west,source",
            "eu.bootstrap.servers": "a:1",
            "eu.west.bootstrap.servers": "b:1",
            "source.bootstrap.servers": "c:1",
            "source.consumer.fetch.min.bytes": "2",
            "eu->eu.west.enabled": "true",
            "source->eu.enabled": "true",
        }
    )

    assert [(str(one.flow), one.source.consumer, one.target.admin) for one in config.flows] == [
        ("eu->eu.west", {"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}),
        (
            "source->eu",
            {"bootstrap.servers": "c:1", "fetch.min.bytes": "2"},
            {"bootstrap.servers": "a:1"},
        ),
    ]


@pytest.mark.parametrize(
    ("alias", "key", "value"),
    [
        pytest.param("topics", "topics.exclude", "secret.*", id="topics"),
        pytest.param("groups", "groups.exclude", "secret.*", id="groups"),
    ],
)
def test_a_key_of_the_mirror_stays_one_where_a_cluster_is_called_like_its_beginning(
    alias: str, key: str, value: str
) -> None:
    config = parse_settings(
        {
            "clusters": f"{alias},B",
            f"{alias}.bootstrap.servers": "a:1",
            "B.bootstrap.servers": "b:1",
            f"{alias}->B.enabled": "true",
            key: value,
        }
    )

    (flow,) = config.flows
    excluded = flow.topics_exclude if alias == "topics" else flow.groups.groups_exclude
    assert excluded == (value,)
    assert flow.source.consumer == {"bootstrap.servers": "a:1"}
