package replication.source;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The driver's half of {@link SharedSource}: which offsets a batch has, and which task reads what.
 *
 * <p>A partition belongs to the same task in each batch, so that its consumer goes on where it was.
 */
final class SharedStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode {
  private static final String PREFIX = "kafka.";

  private final String id = UUID.randomUUID().toString();
  private final Map<String, Object> client = new HashMap<>();
  private final SourceOffsets start;
  private final int tasks;
  private final long limit;
  private final long timeoutMs;
  private final Map<TopicPartition, Integer> taskOf = new HashMap<>();
  private KafkaConsumer<byte[], byte[]> asking;
  private SourceOffsets latest;
  private boolean isDrain;

  SharedStream(CaseInsensitiveStringMap options) {
    options
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              if (key.toLowerCase(Locale.ROOT).startsWith(PREFIX)) {
                client.put(key.substring(PREFIX.length()), value);
              }
            });
    client.put("auto.offset.reset", "none");
    client.put("enable.auto.commit", "false");
    client.put("key.deserializer", ByteArrayDeserializer.class.getName());
    client.put("value.deserializer", ByteArrayDeserializer.class.getName());
    start = SourceOffsets.parse(options.get("startingOffsets"));
    tasks = Math.max(1, Math.min(options.getInt(SharedSource.TASKS, 1), start.map().size()));
    limit = options.getLong("maxOffsetsPerTrigger", Long.MAX_VALUE);
    timeoutMs = options.getLong("kafkaConsumer.pollTimeoutMs", 120_000);
    start.map().keySet().forEach(tp -> taskOf.put(tp, taskOf.size() % tasks));
  }

  @Override
  public Offset initialOffset() {
    return start;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return SourceOffsets.parse(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return limit == Long.MAX_VALUE ? ReadLimit.allAvailable() : ReadLimit.maxRows(limit);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    isDrain = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("a batch is limited");
  }

  @Override
  public Offset reportLatestOffset() {
    return latest;
  }

  @Override
  public Offset latestOffset(Offset from, ReadLimit most) {
    if (latest == null || !isDrain) {
      latest = ask();
    }
    if (!(most instanceof ReadMaxRows rows)) {
      return latest;
    }
    return limited(((SourceOffsets) from).map(), rows.maxRows());
  }

  private SourceOffsets ask() {
    try {
      if (asking == null) {
        asking = new KafkaConsumer<>(client);
      }
      SourceOffsets ends = new SourceOffsets();
      asking.endOffsets(start.map().keySet(), Duration.ofMillis(timeoutMs)).forEach(ends::put);
      return ends;
    } catch (InterruptException e) { // Spark looks for its own, or Java's
      throw new UncheckedIOException(new InterruptedIOException(e.toString()));
    }
  }

  private SourceOffsets limited(Map<TopicPartition, Long> from, long most) {
    double all = 0;
    for (Map.Entry<TopicPartition, Long> entry : latest.map().entrySet()) {
      all += entry.getValue() - from.get(entry.getKey());
    }
    if (all <= most) {
      return latest;
    }
    SourceOffsets ends = new SourceOffsets();
    for (Map.Entry<TopicPartition, Long> entry : latest.map().entrySet()) {
      long begin = from.get(entry.getKey());
      long size = entry.getValue() - begin;
      ends.put(entry.getKey(), begin + Math.min(size, (long) Math.ceil(most * (size / all))));
    }
    return ends;
  }

  /** The shares of a micro-batch. */
  @Override
  public InputPartition[] planInputPartitions(Offset from, Offset until) {
    return plan(((SourceOffsets) from).map(), ((SourceOffsets) until).map());
  }

  /** The shares of a Real-Time batch, which has no end. */
  @Override
  public InputPartition[] planInputPartitions(Offset from) {
    return plan(((SourceOffsets) from).map(), null);
  }

  private InputPartition[] plan(Map<TopicPartition, Long> from, Map<TopicPartition, Long> until) {
    List<Share> shares = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      shares.add(new Share(id, task, client, timeoutMs));
    }
    from.forEach(
        (tp, begin) -> {
          long end = until == null ? Long.MAX_VALUE : until.get(tp);
          if (end < begin) {
            throw new IllegalStateException(
                "KAFKA_DATA_LOSS: " + tp + " ends at " + end + ", before offset " + begin);
          }
          if (end > begin) {
            shares.get(taskOf.get(tp)).add(tp, begin, end);
          }
        });
    shares.removeIf(Share::isEmpty);
    return shares.toArray(new InputPartition[0]);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] ofTasks) {
    SourceOffsets merged = new SourceOffsets();
    for (PartitionOffset offsets : ofTasks) {
      merged.putAll((SourceOffsets) offsets);
    }
    return merged;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SharedReader.Factory();
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {
    if (asking != null) {
      asking.close(Duration.ZERO);
    }
    SharedConsumer.closeKept(id); // on other machines they are closed with age
  }
}
