"""A configuration of nothing but addresses and one flow has MirrorMaker 2's defaults."""

from replication.config.group_settings import (
    GroupsConfig,
    HeartbeatsConfig,
    OffsetSyncsConfig,
    StateConfig,
)
from replication.config.metrics_settings import MetricsConfig, ServeConfig
from replication.config.schema_settings import RegistryConfig, SchemasConfig
from replication.config.topic_settings import (
    AclsConfig,
    DeadLettersConfig,
    DeletionsConfig,
    GuardConfig,
    StatusConfig,
    TopicConfigsConfig,
)
from replication.config.tree import ClusterConfig, FlowConfig, MirrorConfig
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


def test_the_defaults_are_those_of_mirrormaker() -> None:
    assert parse_settings(ONE_FLOW) == MirrorConfig(
        file="c.yaml",
        clusters=("A", "B"),
        state_dir="file:///state",
        hadoop={},
        engine="auto",
        mode="auto",
        other_flows=(),
        flows=(
            FlowConfig(
                flow=Flow("A", "B"),
                topics=(".*",),
                topics_exclude=(r"mm2.*\.internal", r".*\.replica", "__.*"),
                heartbeats_replication_enabled=True,
                policy=PrefixPolicy(),
                aggregate_topics=(),
                replication_factor=2,
                refresh_topics_enabled=True,
                refresh_topics_interval_seconds=600,
                mode="auto",
                record_source="auto",
                tasks_max=None,
                realtime_batch_seconds=600,
                batch_max_records=1_000_000,
                drain_empty_allowed=False,
                takeover_topic="",
                record_timestamps="preserve",
                compression="producer",
                has_provenance=False,
                auto_offset_reset="earliest",
                state=StateConfig(
                    write_interval_seconds=30,
                    retention_days={
                        "events": 90,
                        "checkpoints": 7,
                        "leases": 90,
                        "executions": 30,
                        "figures": 30,
                    },
                ),
                guard=GuardConfig(
                    topics=(".*",),
                    policies={
                        "records-expired": "fail",
                        "source-truncated": "fail",
                        "source-recreated": "fail",
                        "target-truncated": "fail",
                        "unmatched": "fail",
                        "foreign-records": "skip",
                        "copies-expired": "fail",
                    },
                ),
                letters=DeadLettersConfig(
                    kind="none", letters_topic="A.dead-letters.internal", most=10
                ),
                topic_configs=TopicConfigsConfig(
                    exclude=(
                        r"follower\.replication\.throttled\.replicas",
                        r"leader\.replication\.throttled\.replicas",
                        r"message\.timestamp\.difference\.max\.ms",
                        r"log\.message\.timestamp\.before\.max\.ms",
                        r"log\.message\.timestamp\.after\.max\.ms",
                        r"message\.timestamp\.type",
                        r"unclean\.leader\.election\.enable",
                        r"min\.insync\.replicas",
                    ),
                    defaults_from="target",
                    sync_enabled=True,
                    sync_interval_seconds=600,
                ),
                acls=AclsConfig(
                    sync_enabled=True, sync_interval_seconds=600, prefixed=False, removal=False
                ),
                deletions=DeletionsConfig(enabled=False, grace_seconds=604_800),
                offset_syncs=OffsetSyncsConfig(
                    enabled=True, location="source", replication_factor=3, lag_max=100
                ),
                groups=GroupsConfig(
                    groups=(".*",),
                    groups_exclude=("console-consumer-.*", "connect-.*", "__.*"),
                    refresh_enabled=True,
                    refresh_interval_seconds=600,
                    checkpoints_enabled=True,
                    checkpoints_interval_seconds=60,
                    replication_factor=3,
                    sync_enabled=False,
                    sync_interval_seconds=60,
                    sync_on_rewind="keep",
                ),
                schema_ids=KnownIds(),
                schemas=SchemasConfig(
                    mode="none",
                    topics=(),
                    unframed="copy",
                    source_registry=NO_REGISTRY,
                    target_registry=NO_REGISTRY,
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
                source=ClusterConfig(
                    alias="A",
                    consumer={"bootstrap.servers": "a:1"},
                    producer={"bootstrap.servers": "a:1"},
                    admin={"bootstrap.servers": "a:1"},
                ),
                target=ClusterConfig(
                    alias="B",
                    consumer={"bootstrap.servers": "b:1"},
                    producer={"bootstrap.servers": "b:1"},
                    admin={"bootstrap.servers": "b:1"},
                ),
            ),
        ),
        heartbeats=(
            heartbeats("A->B", "B", "b:1"),
            heartbeats("B->A", "A", "a:1"),
        ),
        serve=ServeConfig(
            port=6670,
            listen="127.0.0.1",
            tokens_file="",
            certificate="",
            key="",
            client_ca="",
            prefix="",
            allowed_hosts=(),
            trusted_proxies=(),
        ),
        metrics=MetricsConfig(
            port=0,
            listen="127.0.0.1",
            partitions="lagging",
            topics_max=1000,
            groups_max=500,
            mm2_names=False,
        ),
        warnings=(),
        notes=(),
    )
