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
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The properties of a task's client, and what they let it hold in memory.
 *
 * <p>Kafka's client has one fetch on its way to each broker, and leaves out partitions of which it
 * still has records. If it kept some back, the fetch would be for idle partitions only, and those
 * with a backlog would wait until the broker gives that one up. So a poll takes all that was
 * fetched, and sizes of fetches are what bounds the memory. Compressed records become larger and
 * tiny ones become objects; whoever meets more of them than planned asks for less, until many polls
 * have had so little that more would fit. A single batch of the log that is more than planned has
 * to be taken all the same.
 */
final class ClientSettings implements Serializable {
  private static final long serialVersionUID = 1;

  private static final String PREFIX = "kafka.";
  private static final int RECORDS = 100_000; // of all tasks together
  private static final int LEAST_RECORDS = 1_000;
  private static final long BYTES = 67_108_864; // of all tasks together
  private static final int LEAST_FETCH = 16_384; // most producers' batch.size
  private static final int TIMES = 4;
  private static final int RECORD = 200; // bytes of its objects, without key, value and headers

  private final HashMap<String, Object> properties;
  private final String flow;
  private final String cluster;
  private final int tasks;
  private final long timeoutMs;
  private final long singleBytes;

  private ClientSettings(
      Map<String, Object> properties,
      String flow,
      String cluster,
      int tasks,
      long timeoutMs,
      long singleBytes) {
    this.properties = new HashMap<>(properties);
    this.flow = flow;
    this.cluster = cluster;
    this.tasks = tasks;
    this.timeoutMs = timeoutMs;
    this.singleBytes = singleBytes;
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
    int records = Math.max(LEAST_RECORDS, RECORDS / tasks);
    properties.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, String.valueOf(records));
    long timeoutMs = options.getLong("kafkaConsumer.pollTimeoutMs", 120_000);
    String flow = options.getOrDefault("flow", "");
    String cluster = options.getOrDefault("clusterId", "");
    return new ClientSettings(properties, flow, cluster, tasks, timeoutMs, BYTES / tasks);
  }

  /** Whose records are read; empty if nobody may pause partitions of them. */
  String flow() {
    return flow;
  }

  Consumer<byte[], byte[]> connect() {
    return new BoundedClient(new HashMap<>(properties), new PollBudget(polledBytes(), cluster));
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

  /** How long a broker keeps a fetch that has no records. */
  long fetchWaitMs() {
    return number(
        ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, ConsumerConfig.DEFAULT_FETCH_MAX_WAIT_MS);
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

  /** The most bytes that a poll may make of what was fetched. */
  long polledBytes() {
    return Math.max(singleBytes, 2 * fetchBytes());
  }

  private long number(String key, long usual) {
    Object value = properties.get(key);
    return value == null ? usual : Long.parseLong(value.toString().trim());
  }

  /** The same for fetches that have more bytes of records than planned. */
  ClientSettings forMoreBytes() {
    return fetchBytes() > LEAST_FETCH ? withSmallerFetches() : with(Map.of(), TIMES * singleBytes);
  }

  /** The same for fetches that have more records than planned, or a single batch that does. */
  ClientSettings forMoreRecords() {
    if (fetchBytes() > LEAST_FETCH) {
      return withSmallerFetches();
    }
    long records = Math.min(Integer.MAX_VALUE, TIMES * polledRecords());
    return with(
        Map.of(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, String.valueOf(records)), singleBytes);
  }

  /** The same for fetches that are larger again, up to the {@code planned} ones. */
  ClientSettings towards(ClientSettings planned) {
    long fetch = TIMES * fetchBytes();
    long partition = TIMES * partitionBytes();
    if (fetch >= planned.fetchBytes() && partition >= planned.partitionBytes()) {
      return planned;
    }
    Map<String, String> larger =
        Map.of(
            ConsumerConfig.FETCH_MAX_BYTES_CONFIG,
            String.valueOf(Math.min(fetch, planned.fetchBytes())),
            ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG,
            String.valueOf(Math.min(partition, planned.partitionBytes())));
    return planned.with(larger, planned.singleBytes);
  }

  /** Whether a poll would still fit if fetches were larger by a step. */
  boolean hasRoomFor(ConsumerRecords<byte[], byte[]> polled) {
    return sizeOf(polled) < polledBytes() / TIMES && polled.count() < polledRecords() / TIMES;
  }

  private ClientSettings withSmallerFetches() {
    Map<String, String> smaller =
        Map.of(
            ConsumerConfig.FETCH_MAX_BYTES_CONFIG,
            smaller(fetchBytes()),
            ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG,
            smaller(partitionBytes()));
    return with(smaller, singleBytes);
  }

  private static String smaller(long bytes) {
    return String.valueOf(Math.min(bytes, Math.max(LEAST_FETCH, bytes / TIMES)));
  }

  private ClientSettings with(Map<String, String> changed, long bytes) {
    Map<String, Object> all = new HashMap<>(properties);
    all.putAll(changed);
    return new ClientSettings(all, flow, cluster, tasks, timeoutMs, bytes);
  }

  /** The bytes that some records take, without their headers. */
  static long sizeOf(Iterable<ConsumerRecord<byte[], byte[]>> records) {
    long size = 0;
    for (ConsumerRecord<byte[], byte[]> record : records) {
      size += RECORD + Math.max(0, record.serializedKeySize());
      size += Math.max(0, record.serializedValueSize());
    }
    return size;
  }
}
