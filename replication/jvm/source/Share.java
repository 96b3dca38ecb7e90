package replication.source;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;

/** What one task of a {@link SharedStream} reads. */
final class Share implements InputPartition {
  private static final long serialVersionUID = 1;

  /** Offsets of a partition; {@code until} is the greatest number in a Real-Time batch. */
  record Range(TopicPartition partition, long from, long until) implements java.io.Serializable {}

  final String stream;
  final int task;
  final Map<String, Object> client;
  final long timeoutMs;
  final List<Range> ranges = new ArrayList<>();

  Share(String stream, int task, Map<String, Object> client, long timeoutMs) {
    this.stream = stream;
    this.task = task;
    this.client = client;
    this.timeoutMs = timeoutMs;
  }

  void add(TopicPartition partition, long from, long until) {
    ranges.add(new Range(partition, from, until));
  }

  boolean isEmpty() {
    return ranges.isEmpty();
  }

  String key() {
    return stream + "#" + task;
  }
}
