package replication.source;

import java.io.Serializable;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** What a task of a Real-Time batch has read of its partitions, as it tells the driver. */
record TaskOffsets(SourceOffsets from, SourceOffsets until)
    implements PartitionOffset, Serializable {}
