"""Topic settings between confluent-kafka's types and ours: reading them, and requests to change."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from replication.model import Origin, TopicSetting

if TYPE_CHECKING:
    from concurrent.futures import Future

# The topic could be created or changed with other settings.
REJECTED_SETTING: Final = frozenset({"INVALID_CONFIG", "POLICY_VIOLATION"})
ORIGINS: Final[Mapping[ConfigSource, Origin]] = MappingProxyType(
    {
        ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
        ConfigSource.DYNAMIC_BROKER_CONFIG: "cluster",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
        ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
        ConfigSource.DEFAULT_CONFIG: "default",
    }
)


class SettingRejection(NamedTuple):
    """Why a cluster rejected a change. ``code`` is Kafka's name: ``INVALID_CONFIG``."""

    code: str
    reason: str

    @property
    def is_for_a_setting(self) -> bool:
        """Whether the cluster might accept the request with other settings."""
        return self.code in REJECTED_SETTING


def read_setting(entry: ConfigEntry) -> TopicSetting:
    """Reads the setting that an entry of a description holds."""
    origin: Origin = ORIGINS.get(ConfigSource(entry.source), "unknown")
    return TopicSetting(entry.value, origin, entry.is_read_only, entry.is_sensitive)


def describe_settings(
    admin: AdminClient,
    names: Collection[str],
    timeout_s: float,
    kind: ResourceType = ResourceType.TOPIC,
) -> dict[str, "Future[dict[str, ConfigEntry]]"]:
    """Requests all settings of topics, or of brokers by their ids."""
    resources = [ConfigResource(kind, name) for name in names]
    asked = admin.describe_configs(resources, request_timeout=timeout_s)
    return {resource.name: future for resource, future in asked.items()}


def alter_settings(
    admin: AdminClient, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
) -> dict[str, "Future[Any]"]:
    """Requests *changes*, topic by topic; None removes a setting."""
    resources = [
        ConfigResource(
            ConfigResource.Type.TOPIC,
            topic,
            incremental_configs=[_entry(key, value) for key, value in settings.items()],
        )
        for topic, settings in changes.items()
    ]
    asked = admin.incremental_alter_configs(resources, request_timeout=timeout_s)
    return {resource.name: future for resource, future in asked.items()}


def _entry(key: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(key, value, incremental_operation=operation)
