package replication.calls;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** How far a batch reaches whose content nobody can read, by its header. */
public final class DamagedBatch {
  private DamagedBatch() {}

  /**
   * The first and the last offset of the next batch from {@code offset} on, if its checksum is
   * wrong; null if it is right, or there is none.
   */
  public static long[] of(
      Map<String, String> properties, String topic, int partition, long offset, int timeoutMs)
      throws IOException {
    Duration timeout = Duration.ofMillis(timeoutMs);
    var bytes = new ByteArrayDeserializer();
    Node leader = null;
    try (var consumer = new KafkaConsumer<>(new HashMap<>(properties), bytes, bytes)) {
      for (PartitionInfo info : consumer.partitionsFor(topic, timeout)) {
        leader = info.partition() == partition ? info.leader() : leader;
      }
    }
    if (leader == null) {
      throw new LeaderNotAvailableException("nobody leads " + topic + "-" + partition);
    }
    try (var client = new RawFetch(properties)) {
      client.connect(leader, timeout);
      TopicPartition at = new TopicPartition(topic, partition);
      var answer = client.fetch(leader, Map.of(at, offset)).get(at);
      for (RecordBatch batch : FetchResponse.recordsOrFail(answer).batches()) {
        if (batch.lastOffset() >= offset) {
          return batch.isValid() ? null : new long[] {batch.baseOffset(), batch.lastOffset()};
        }
      }
    }
    return null;
  }
}
