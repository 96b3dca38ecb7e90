package replication;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

/**
 * Gives a copied record the timestamp of its original, which Spark's Kafka sink has no column for.
 *
 * <p>The query appends the timestamp to the headers; here that carrier becomes the record's timestamp
 * and is taken off again. Kafka logs and swallows what an interceptor throws, and would then send the
 * record with the wrong time and one header too many. So a record whose carrier cannot be read is sent
 * to a topic name that no broker accepts: the send fails at once, and with it the Spark task.
 */
public final class PreserveTimestamps implements ProducerInterceptor<byte[], byte[]> {
  /** Always the last header, 8 bytes: epoch milliseconds, big-endian; below 0 means none. */
  static final String CARRIER = "__replication.timestamp";

  // Static, so that the driver can ask: producers live in Spark's own pool, out of its reach.
  private static final Map<String, LongAdder> SENT = new ConcurrentHashMap<>();
  private static final Map<String, LongAdder> UNACKNOWLEDGED = new ConcurrentHashMap<>();

  private LongAdder sent = new LongAdder();
  private LongAdder unacknowledged = new LongAdder();

  /** How many records this JVM's producers with this client.id were given, as a decimal number. */
  public static String sent(String clientId) {
    return count(SENT, clientId);
  }

  /** How many of those neither arrived nor failed yet, as a decimal number. */
  public static String unacknowledged(String clientId) {
    return count(UNACKNOWLEDGED, clientId);
  }

  private static String count(Map<String, LongAdder> counts, String clientId) {
    LongAdder count = counts.get(clientId);
    return Long.toString(count == null ? 0 : count.sum());
  }

  @Override
  public void configure(Map<String, ?> configs) {
    String clientId = String.valueOf(configs.get("client.id"));
    sent = SENT.computeIfAbsent(clientId, unused -> new LongAdder());
    unacknowledged = UNACKNOWLEDGED.computeIfAbsent(clientId, unused -> new LongAdder());
  }

  @Override
  public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
    sent.increment();
    unacknowledged.increment();
    try {
      return withTimestamp(record);
    } catch (RuntimeException e) {
      return unsendable(record, e.toString());
    }
  }

  private static ProducerRecord<byte[], byte[]> withTimestamp(ProducerRecord<byte[], byte[]> record) {
    Header[] headers = record.headers().toArray();
    int last = headers.length - 1;
    // Only the last one is ours: the original may carry headers of the same name.
    if (last < 0 || !CARRIER.equals(headers[last].key())) {
      return unsendable(record, "no carrier header");
    }
    byte[] carrier = headers[last].value();
    if (carrier == null || carrier.length != Long.BYTES) {
      return unsendable(record, "a carrier header that is not 8 bytes");
    }
    long timestamp = 0;
    for (byte octet : carrier) {
      timestamp = timestamp << Byte.SIZE | octet & 0xff;
    }
    return new ProducerRecord<>(
        record.topic(),
        record.partition(),
        timestamp < 0 ? null : timestamp, // without one, the producer takes the present
        record.key(),
        record.value(),
        Arrays.asList(Arrays.copyOf(headers, last)));
  }

  private static ProducerRecord<byte[], byte[]> unsendable(
      ProducerRecord<byte[], byte[]> record, String reason) {
    String topic = "replication: " + reason + " on " + record.topic() + "-" + record.partition();
    return new ProducerRecord<>(topic, null);
  }

  /** Called once per record, also for one that failed before it reached a batch. */
  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
    unacknowledged.decrement();
  }

  @Override
  public void close() {}
}
