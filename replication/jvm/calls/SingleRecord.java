package replication.calls;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import replication.producer.OwnerOnly;

/** Writes one record by itself, as long as its process holds the lease of the flow. */
public final class SingleRecord {
  private static final Duration POLL = Duration.ofMillis(100);

  private SingleRecord() {}

  /**
   * Returns the offset of the record once the target has acknowledged it.
   *
   * @param timestamp -1 for the present
   * @param headers a count, and that many names and values, each with its length before it, -1 for
   *     null, big-endian
   */
  public static long write(
      Map<String, String> properties,
      String topic,
      int partition,
      long timestamp,
      byte[] key,
      byte[] value,
      byte[] headers,
      int timeoutMs)
      throws Exception {
    long deadline = System.nanoTime() + 1_000_000L * timeoutMs;
    var bytes = new ByteArraySerializer();
    var record =
        new ProducerRecord<byte[], byte[]>(
            topic, partition, timestamp < 0 ? null : timestamp, key, value, headersOf(headers));
    var producer = new KafkaProducer<>(new HashMap<>(properties), bytes, bytes);
    try {
      return await(producer.send(record), properties.get("client.id"), deadline);
    } finally {
      producer.close(Duration.ZERO); // gives up what is left, else it would be sent after the lease
    }
  }

  private static long await(Future<RecordMetadata> sent, String clientId, long deadline)
      throws Exception {
    while (true) {
      try {
        return sent.get(POLL.toMillis(), TimeUnit.MILLISECONDS).offset();
      } catch (java.util.concurrent.TimeoutException e) {
        if (OwnerOnly.hasPassed(clientId) || System.nanoTime() - deadline > 0) {
          throw new TimeoutException("the target did not take the record in time", e);
        }
      }
    }
  }

  private static RecordHeaders headersOf(byte[] bytes) throws IOException {
    var in = new DataInputStream(new ByteArrayInputStream(bytes));
    var headers = new RecordHeaders();
    int count = in.readInt();
    for (int header = 0; header < count; header++) {
      byte[] name = read(in);
      headers.add(new String(name, StandardCharsets.UTF_8), read(in));
    }
    return headers;
  }

  private static byte[] read(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length < 0 ? null : in.readNBytes(length);
  }
}
