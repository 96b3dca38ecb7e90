package replication.source;

import java.io.Serializable;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;

/** What one task reads: the partitions that share its consumer, each up to an offset. */
final class TaskShare implements InputPartition {
  private static final long serialVersionUID = 1;

  /** Of a Real-Time batch, which ends by time. */
  static final long NO_END = Long.MAX_VALUE;

  /**
   * Offsets of a partition, the last one excluded, and the epoch of the leader that has the record
   * before them; null if nobody knows it.
   */
  record Range(TopicPartition partition, long from, long until, Integer epoch)
      implements Serializable {}

  /** Under which the task's consumer is kept for the next batch of the stream. */
  private final String consumerKey;

  private final String relay;
  private final List<Range> ranges;
  private final String[] hosts;

  TaskShare(String consumerKey, String relay, List<Range> ranges, String[] hosts) {
    this.consumerKey = consumerKey;
    this.relay = relay;
    this.ranges = List.copyOf(ranges);
    this.hosts = hosts.clone();
  }

  String consumerKey() {
    return consumerKey;
  }

  /** The {@link Relay} in which the task takes a turn; empty if its query reads alone. */
  String relay() {
    return relay;
  }

  List<Range> ranges() {
    return ranges;
  }

  @Override
  public String[] preferredLocations() {
    return hosts.clone();
  }
}
