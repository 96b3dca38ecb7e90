package replication.producer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Lets a producer send only while this process holds the lease of its flow.
 *
 * <p>The check is made for each record, in the thread that sends it. Hence a process that was
 * paused and goes on sends no further record, whatever its other threads do first. Records that a
 * producer had taken before the pause are beyond its reach. Without a deadline, as in the executors
 * of a cluster, all records pass: those executors end when they lose the driver.
 */
public final class OwnerOnly implements ProducerInterceptor<byte[], byte[]> {
  private static final Map<String, Deadline> DEADLINES = new ConcurrentHashMap<>();

  private Deadline deadline = new Deadline();

  private static final class Deadline {
    private volatile boolean isSet;
    private volatile long nanos;

    private boolean hasPassed() {
      return isSet && System.nanoTime() - nanos > 0;
    }
  }

  /** Lets producers with this client.id send until {@code nanos} of {@link System#nanoTime}. */
  public static void allowUntil(String clientId, long nanos) {
    Deadline deadline = deadline(clientId);
    deadline.nanos = nanos;
    deadline.isSet = true;
  }

  /** Removes the deadline: the lease was released, and what sends next will take its own. */
  public static void remove(String clientId) {
    deadline(clientId).isSet = false;
  }

  /** Whether producers with this client.id may send no more. */
  public static boolean hasPassed(String clientId) {
    return deadline(clientId).hasPassed();
  }

  private static Deadline deadline(String clientId) {
    return DEADLINES.computeIfAbsent(clientId, unused -> new Deadline());
  }

  @Override
  public void configure(Map<String, ?> configs) {
    deadline = deadline(String.valueOf(configs.get("client.id")));
  }

  @Override
  public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
    if (deadline.hasPassed()) {
      // No broker accepts such a topic name, so the send fails at once, and with it the Spark task.
      return new ProducerRecord<>("replication: the lease was lost before " + record.topic(), null);
    }
    return record;
  }

  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

  @Override
  public void close() {}
}
