package replication.calls;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Java's consumer with one round trip from Python for many records. It is in no group. */
public final class RecordReader implements AutoCloseable {
  private static final int MOST_BYTES = 16 << 20;
  private static final int MOST_RECORDS = 5000;

  private final KafkaConsumer<byte[], byte[]> consumer;
  private final List<TopicPartition> partitions = new ArrayList<>();
  private final Map<TopicPartition, Integer> numbers = new HashMap<>();
  private List<TopicPartition> assigned = new ArrayList<>();
  private int polls;

  public RecordReader(Map<String, String> properties) {
    var bytes = new ByteArrayDeserializer();
    consumer = new KafkaConsumer<>(new HashMap<>(properties), bytes, bytes);
  }

  @Override
  public void close() {
    consumer.close(Duration.ZERO);
  }

  /** The first offset of a partition, and the one after the last that may be read. */
  public long[] bounds(String topic, int partition, int timeoutMs) {
    Duration timeout = Duration.ofMillis(timeoutMs);
    // The client would wait for a partition that does not exist until the timeout.
    if (consumer.partitionsFor(topic, timeout).stream()
        .noneMatch(it -> it.partition() == partition)) {
      throw new UnknownTopicOrPartitionException(
          "the cluster has no partition " + topic + "-" + partition);
    }
    List<TopicPartition> one = List.of(new TopicPartition(topic, partition));
    long first = consumer.beginningOffsets(one, timeout).get(one.get(0));
    return new long[] {first, consumer.endOffsets(one, timeout).get(one.get(0))};
  }

  /** Forgets all partitions; {@link #add} names the next ones. */
  public void clear() {
    partitions.clear();
    numbers.clear();
    assigned = new ArrayList<>();
    polls = 0;
    consumer.unsubscribe();
  }

  /**
   * Reads {@code topic} from {@code offset} as well. Partitions count from 0 in the order they are
   * added.
   */
  public void add(String topic, int partition, long offset) {
    TopicPartition added = new TopicPartition(topic, partition);
    numbers.put(added, partitions.size());
    partitions.add(added);
    assigned.add(added);
    consumer.assign(assigned);
    consumer.seek(added, offset);
  }

  /** Stops reading the partitions with these numbers. */
  public void drop(String dropped) {
    for (String number : dropped.split(",")) {
      assigned.remove(partitions.get(Integer.parseInt(number)));
    }
    consumer.assign(assigned);
  }

  /**
   * Records, then the partitions whose end was reached, big-endian: a count and that many records
   * of partition number, offset, timestamp, whether the cluster has set it, leader epoch (-1 if
   * unknown), key, value, count of headers, headers; a count and that many partition numbers. Bytes
   * have their length before them, -1 for null.
   *
   * @param poll counts the polls from 1 on: py4j calls once more if an answer is lost, and what was
   *     in that one would be passed over
   */
  public byte[] poll(int poll, int timeoutMs) throws IOException {
    if (poll != ++polls) {
      throw new IllegalStateException(
          "an answer with records was lost on its way from Java to Python, as happens where Java's"
              + " memory is short: give the process's JVM more of it");
    }
    var bytes = new ByteArrayOutputStream();
    var out = new DataOutputStream(bytes);
    out.writeInt(0); // the count, which is known in the end
    int count = 0;
    var records = consumer.poll(Duration.ofMillis(timeoutMs));
    while (!records.isEmpty()) {
      count += records.count();
      write(out, records);
      // a round trip costs tens of milliseconds; a batch may be thousands of times its size
      boolean isFull = bytes.size() >= MOST_BYTES || count >= MOST_RECORDS;
      records = isFull ? ConsumerRecords.empty() : consumer.poll(Duration.ZERO);
    }
    List<TopicPartition> ended = new ArrayList<>();
    for (TopicPartition partition : assigned) {
      var lag = consumer.currentLag(partition);
      if (lag.isPresent() && lag.getAsLong() == 0) {
        ended.add(partition);
      }
    }
    out.writeInt(ended.size());
    for (TopicPartition partition : ended) {
      out.writeInt(numbers.get(partition));
    }
    byte[] found = bytes.toByteArray();
    ByteBuffer.wrap(found).putInt(count);
    return found;
  }

  private void write(DataOutputStream out, ConsumerRecords<byte[], byte[]> records)
      throws IOException {
    for (ConsumerRecord<byte[], byte[]> record : records) {
      out.writeInt(numbers.get(new TopicPartition(record.topic(), record.partition())));
      out.writeLong(record.offset());
      out.writeLong(record.timestamp());
      out.writeBoolean(record.timestampType() == TimestampType.LOG_APPEND_TIME);
      out.writeInt(record.leaderEpoch().orElse(-1));
      write(out, record.key());
      write(out, record.value());
      Header[] headers = record.headers().toArray();
      out.writeInt(headers.length);
      for (Header header : headers) {
        write(out, header.key().getBytes(StandardCharsets.UTF_8));
        write(out, header.value());
      }
    }
  }

  private static void write(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) {
      out.write(bytes);
    }
  }
}
