package replication.source;

import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The properties of a task's client, and what they let it hold in memory.
 *
 * <p>Kafka's client has one fetch on its way to each broker, and leaves out partitions of which it
 * still has records. If it kept some back, the fetch would be for idle partitions only, and those
 * with a backlog would wait until the broker gives that one up. So a poll takes all that was
 * fetched, and sizes of fetches are what bounds the memory. Compressed records become larger and
 * tiny ones become objects; whoever meets more of them than planned asks for less from then on.
 */
final class ClientSettings implements Serializable {
  private static final long serialVersionUID = 1;

  private static final String PREFIX = "kafka.";
  private static final int RECORDS = 100_000; // of all tasks together
  private static final int LEAST_RECORDS = 1_000;
  private static final long BYTES = 67_108_864; // of all tasks together
  private static final int LEAST_FETCH = 65_536;
  private static final int LARGER = 4;
  private static final int FEW = 16; // large records, of which a fetch always has one

  private final HashMap<String, Object> properties;
  private final String flow;
  private final int tasks;
  private final long timeoutMs;

  private ClientSettings(Map<String, Object> properties, String flow, int tasks, long timeoutMs) {
    this.properties = new HashMap<>(properties);
    this.flow = flow;
    this.tasks = tasks;
    this.timeoutMs = timeoutMs;
  }

  static ClientSettings of(CaseInsensitiveStringMap options, int tasks) {
    Map<String, Object> properties = new HashMap<>();
    options
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              if (key.toLowerCase(Locale.ROOT).startsWith(PREFIX)) {
                properties.put(key.substring(PREFIX.length()), value);
              }
            });
    properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    String bytes = ByteArrayDeserializer.class.getName();
    properties.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, bytes);
    properties.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, bytes);
    int records = Math.max(LEAST_RECORDS, RECORDS / tasks);
    properties.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, String.valueOf(records));
    long timeoutMs = options.getLong("kafkaConsumer.pollTimeoutMs", 120_000);
    String flow = options.getOrDefault("flow", "");
    return new ClientSettings(properties, flow, tasks, timeoutMs);
  }

  /** Whose records are read; empty if nobody may pause partitions of them. */
  String flow() {
    return flow;
  }

  Consumer<byte[], byte[]> connect() {
    return new KafkaConsumer<>(new HashMap<>(properties));
  }

  /** Closes a client without a wait for the answer to its last fetch. */
  static void close(Consumer<?, ?> consumer) {
    try {
      consumer.close(Duration.ZERO);
    } catch (InterruptException e) { // it is closed all the same
      Thread.currentThread().interrupt();
    }
  }

  /** How long a task waits for records that the log should have. */
  long timeoutMs() {
    return timeoutMs;
  }

  /** How long the driver waits for an answer. */
  long answerMs() {
    return number(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 60_000);
  }

  /** What a task's share of the memory is. */
  long mostBytes() {
    return BYTES / tasks;
  }

  /** The most that a fetch brings of one partition. */
  long partitionBytes() {
    return number(
        ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG,
        ConsumerConfig.DEFAULT_MAX_PARTITION_FETCH_BYTES);
  }

  private long fetchBytes() {
    return number(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, ConsumerConfig.DEFAULT_FETCH_MAX_BYTES);
  }

  /** The most records that a poll takes; the client keeps back what it has beyond them. */
  long polledRecords() {
    return number(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, ConsumerConfig.DEFAULT_MAX_POLL_RECORDS);
  }

  private long number(String key, long usual) {
    Object value = properties.get(key);
    return value == null ? usual : Long.parseLong(value.toString().trim());
  }

  /** Whether {@code polled} is more than planned, or not all that the client has. */
  boolean isExceededBy(ConsumerRecords<byte[], byte[]> polled) {
    if (polled.count() >= polledRecords()) {
      return true;
    }
    return fetchBytes() > LEAST_FETCH
        && polled.count() > FEW
        && sizeOf(polled) > Math.max(mostBytes(), 2 * fetchBytes());
  }

  /** The same with fetches of a quarter; with larger polls where fetches are as small as can be. */
  ClientSettings adjusted() {
    Map<String, Object> changed = new HashMap<>(properties);
    if (fetchBytes() > LEAST_FETCH) {
      changed.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, quarter(fetchBytes()));
      changed.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, quarter(partitionBytes()));
    } else {
      long records = Math.min(Integer.MAX_VALUE, LARGER * polledRecords());
      changed.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, String.valueOf(records));
    }
    return new ClientSettings(changed, flow, tasks, timeoutMs);
  }

  private static String quarter(long bytes) {
    return String.valueOf(Math.min(bytes, Math.max(LEAST_FETCH, bytes / 4)));
  }

  /** The bytes of some records' keys and values. */
  static long sizeOf(Iterable<ConsumerRecord<byte[], byte[]>> records) {
    long size = 0;
    for (ConsumerRecord<byte[], byte[]> record : records) {
      size += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    }
    return size;
  }
}
