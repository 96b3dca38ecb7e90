package replication.calls;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Where logs of today part from those that leaders of earlier epochs had. Kafka's consumer asks the
 * brokers that ({@code OffsetForLeaderEpoch}) before it goes on at an offset whose epoch it is
 * told.
 */
public final class EpochEnds {
  private static final String SAME = "=";
  private static final String UNKNOWN = "?";

  private EpochEnds() {}

  /**
   * For each line of {@code topic, partition, offset, epoch}, separated by tabs, where the log of
   * today parts from the one that the leader of that epoch had up to that offset: {@code =} if not
   * before it, an offset, or {@code ?} where no broker says it in time.
   */
  public static String ask(Map<String, String> properties, String lines, int timeoutMs) {
    Map<TopicPartition, OffsetAndMetadata> asked = new LinkedHashMap<>();
    for (String line : lines.split("\n")) {
      String[] fields = line.split("\t");
      asked.put(
          new TopicPartition(fields[0], Integer.parseInt(fields[1])),
          new OffsetAndMetadata(
              Long.parseLong(fields[2]), Optional.of(Integer.parseInt(fields[3])), ""));
    }
    Map<String, Object> own = new HashMap<>(properties);
    own.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none"); // else it goes where it likes
    own.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    Map<TopicPartition, String> found = new HashMap<>();
    var bytes = new ByteArrayDeserializer();
    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(own, bytes, bytes);
    try {
      find(consumer, asked, found, System.nanoTime() + timeoutMs * 1_000_000L);
    } finally {
      consumer.close(Duration.ZERO);
    }
    StringBuilder answers = new StringBuilder();
    asked.keySet().forEach(tp -> answers.append(found.getOrDefault(tp, UNKNOWN)).append('\n'));
    return answers.toString();
  }

  private static void find(
      KafkaConsumer<byte[], byte[]> consumer,
      Map<TopicPartition, OffsetAndMetadata> asked,
      Map<TopicPartition, String> found,
      long deadline) {
    List<TopicPartition> left = new ArrayList<>(asked.keySet());
    try { // a client that knows no leader yet takes each offset for a good one
      consumer.endOffsets(left, Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
    } catch (TimeoutException e) {
      return;
    }
    consumer.assign(left);
    asked.forEach(consumer::seek);
    while (!left.isEmpty()) {
      TopicPartition next = left.get(left.size() - 1);
      try {
        // one question to each broker, about all of its partitions
        long patience = Math.max(0, deadline - System.nanoTime());
        consumer.position(next, Duration.ofNanos(patience));
        found.put(next, SAME);
        left.remove(left.size() - 1); // it stays assigned: each assignment costs its partitions
      } catch (LogTruncationException e) {
        e.offsetOutOfRangePartitions().keySet().forEach(tp -> found.put(tp, UNKNOWN));
        e.divergentOffsets().forEach((tp, at) -> found.put(tp, String.valueOf(at.offset())));
        left.removeAll(e.offsetOutOfRangePartitions().keySet());
        consumer.assign(left); // the others keep their answers
      } catch (OffsetOutOfRangeException e) { // nobody fetches, but what it says is no answer
        left.removeAll(e.offsetOutOfRangePartitions().keySet());
        consumer.assign(left);
      } catch (TimeoutException e) {
        left.remove(left.size() - 1);
      }
    }
  }
}
