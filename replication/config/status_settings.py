"""The topic in which the owner of a flow says how it is: Connect's status topic. Pure."""

from dataclasses import dataclass
from typing import Annotated, Final

from replication.config.config_key import LONGEST, MOST_REPLICAS, NOT_MM2, ConfigKey, number

STATUS_TOPIC: Final = "status.storage.topic"
_PLACES: Final = ("top", "flow", "target")  # MirrorMaker 2 configures a worker for each target


@dataclass(frozen=True, kw_only=True)
class StatusConfig:
    """A flow's status topic on its target; an empty name turns it off."""

    storage_topic: Annotated[
        str,
        ConfigKey(
            STATUS_TOPIC,
            "text",
            "",
            "the topic on the target in which the owner of a flow says how it is, as Connect's "
            "workers do; by default mm2-status.A.internal. Without a value behind it the key turns "
            "this off. Like the next two it may also be set as B.status.storage.topic, for all "
            "flows that write to B",
            places=_PLACES,
        ),
    ]
    partitions: Annotated[
        int,
        ConfigKey(
            "status.storage.partitions",
            "number",
            "5",
            "partitions of the status topic where it is created; -1 for the cluster's default",
            least=-1,
            places=_PLACES,
        ),
    ]
    replication_factor: Annotated[
        int,
        ConfigKey(
            "status.storage.replication.factor",
            "number",
            "3",
            "replication factor of the status topic; -1 for the cluster's default",
            least=-1,
            most=MOST_REPLICAS,
            places=_PLACES,
        ),
    ]
    interval_seconds: Annotated[
        int,
        number(
            "status.publish.interval.seconds",
            "5",
            "how often the figures of a flow are measured and its status is written, in seconds; "
            "a change of state is written at once; with more than 2500 partitions in the process, "
            "half as often; 0 for never",
            NOT_MM2,
            most=LONGEST,
        ),
    ]
    slo_lag_seconds: Annotated[
        int,
        number(
            "slo.lag.seconds",
            "30",
            "from this lag on, in seconds, a flow is degraded",
            NOT_MM2,
            least=1,
            most=LONGEST,
        ),
    ]
