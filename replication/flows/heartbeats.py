"""Emit a record every interval that says: this pair of clusters is configured and alive.

The query is Catalyst from end to end: one row for each micro-batch, made into MirrorMaker 2's bytes
(mm2.md, 5.2) with the time of the batch, written by Spark's Kafka sink.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config_model import HeartbeatsConfig
from replication.io.admin import Cluster
from replication.io.internal_topic import COMPACTED
from replication.io.kafka_options import heartbeat_options
from replication.io.session import ticks
from replication.plan import NewTopic
from replication.wire import HEARTBEAT_VERSION, Heartbeat


def heartbeat_records(rows: DataFrame, config: HeartbeatsConfig) -> DataFrame:
    """A heartbeat for each of *rows*: ``key binary, value binary, topic string, partition int``."""
    key = Heartbeat(config.flow.source, config.flow.target, 0).key()
    now = F.unix_millis(F.current_timestamp()).cast("binary")  # big-endian, as on the wire
    return rows.select(
        F.lit(bytearray(key)).alias("key"),
        F.concat(F.lit(bytearray(HEARTBEAT_VERSION)), now).alias("value"),
        F.lit(config.topic).alias("topic"),
        F.lit(0).alias("partition"),
    )


def heartbeat_query(spark: SparkSession, config: HeartbeatsConfig) -> DataStreamWriter:
    """The query, ready to start; creates its topic where it is missing.

    Raises:
        ClusterError: The cluster does not answer, or refuses the topic.
    """
    _create_topic(config)
    writer = heartbeat_records(ticks(spark), config).writeStream.format("kafka")
    return writer.options(**heartbeat_options(config)).trigger(
        processingTime=f"{config.interval_seconds} seconds"
    )


def emit_once(spark: SparkSession, config: HeartbeatsConfig) -> None:
    """One heartbeat, for a drain.

    Raises:
        ClusterError: The cluster does not answer, or refuses the topic.
    """
    _create_topic(config)
    records = heartbeat_records(spark.range(1).toDF("tick"), config)
    records.write.format("kafka").options(**heartbeat_options(config)).save()


def _create_topic(config: HeartbeatsConfig) -> None:
    with Cluster(config.alias, config.admin) as cluster:
        if not cluster.describe([config.topic]):
            new = NewTopic(config.topic, 1, config.replication_factor, COMPACTED)
            cluster.create_topics([new])
