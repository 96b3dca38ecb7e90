"""The topic of a flow's checkpoints on the target, and what it says. Needs no Spark."""

from replication.config.tree import FlowConfig
from replication.groups.positions import GroupPartition
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.log import Log
from replication.mm2.wire import Checkpoint, WireError

log = Log(__name__)


def checkpoints_topic(target: Cluster, config: FlowConfig) -> InternalTopic:
    """Returns the flow's checkpoints topic. It is on the target, as MirrorMaker 2's is."""
    return InternalTopic(
        target,
        config.policy.checkpoints_topic(config.flow.source),
        producer=config.target.producer,
        consumer=config.target.consumer,
        replication_factor=config.groups.replication_factor,
    )


def read_checkpoints(topic: InternalTopic) -> dict[GroupPartition, Checkpoint]:
    """Reads the newest checkpoint of each group and remote partition.

    Records that are not checkpoints are skipped, as in MirrorMaker 2's reader.
    """
    newest: dict[GroupPartition, Checkpoint] = {}
    skipped = list[tuple[int, WireError]]()
    for record in topic.records():
        checkpoint = _decode(record)
        if isinstance(checkpoint, WireError):
            skipped.append((record.offset, checkpoint))
        else:
            newest[checkpoint.group, checkpoint.partition] = checkpoint
    if skipped:  # whoever writes one may write a million
        offset, first = skipped[0]
        more = f"; so are {len(skipped) - 1} more" if len(skipped) > 1 else ""
        log.warning("not_a_checkpoint", topic=topic.name, offset=offset, text=f"{first}{more}")
    return newest


def _decode(record: KafkaRecord) -> Checkpoint | WireError:
    try:
        found = Checkpoint.decode(record.key, record.value)
    except WireError as error:
        return error
    if min(found.partition.partition, found.upstream, found.downstream) < 0:
        return WireError("a checkpoint has a number below 0")
    return found
