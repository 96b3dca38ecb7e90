package replication.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A read of what is between two offsets of each partition, outside of a stream. */
final class SharedBatch implements Batch {
  private static final long EARLIEST = -2; // as Spark's own source names the first offset

  private final Map<TopicPartition, Long> starts;
  private final String ends;
  private final int tasks;
  private final ClientSettings settings;

  SharedBatch(CaseInsensitiveStringMap options) {
    starts = SourceOffsets.parse(options.get(SharedSource.STARTS)).map();
    ends = options.getOrDefault(SharedSource.ENDS, SharedSource.LATEST);
    tasks = SharedSource.tasks(options, starts.size());
    settings = ClientSettings.of(options, tasks);
  }

  @Override
  public InputPartition[] planInputPartitions() {
    Map<TopicPartition, Long> from = new HashMap<>(starts);
    Map<TopicPartition, Long> until;
    try (LogEnds logs = new LogEnds(settings)) {
      Set<TopicPartition> unknown = new HashSet<>(starts.keySet());
      unknown.removeIf(tp -> starts.get(tp) != EARLIEST);
      if (!unknown.isEmpty()) {
        from.putAll(logs.beginnings(unknown));
      }
      until =
          ends.equals(SharedSource.LATEST)
              ? logs.ends(starts.keySet())
              : SourceOffsets.parse(ends).map();
    }
    LogEnds.checkAll(starts.keySet(), until);
    List<TaskShare.Range> ranges = SharedSource.ranges(from, until, Map.of());
    PartitionTasks partitionTasks = new PartitionTasks(starts.keySet(), tasks);
    return SharedStream.shares(UUID.randomUUID().toString(), "", tasks, ranges, partitionTasks);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SharedReader.Factory(settings, false, false);
  }
}
