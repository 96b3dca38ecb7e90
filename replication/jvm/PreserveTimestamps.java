package replication;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.TaskContext;

/**
 * Gives a copied record the timestamp of its original and remembers the original's offset until the
 * target acknowledges the copy. Spark's Kafka sink has a column for neither.
 *
 * <p>The query puts both before the key; the interceptor removes that carrier. Kafka logs and
 * swallows what an interceptor throws, and would then send the record with the wrong time and the
 * wrong key. Hence a record that must not be written goes to a topic name that no broker accepts:
 * the send fails at once, and with it the Spark task. Such records are those whose carrier cannot be
 * read, and all records of a task's second attempt, which would repeat what the first one wrote:
 * Spark runs the tasks of a lost executor again, whatever {@code spark.task.maxFailures} says.
 */
public final class PreserveTimestamps implements ProducerInterceptor<byte[], byte[]> {
  /** Begins a carrier, which also has the original's epoch milliseconds and offset. */
  private static final int CARRIER = 0x8f6f7267;

  private static final int CARRIER_BYTES = Integer.BYTES + 2 * Long.BYTES;

  /**
   * Task property: the generation that a record belongs to, {@code A->B#7}, and behind a tab the token
   * that its reports need. Spark hides the values of settings with such a name.
   */
  static final String GENERATION = "spark.replication.generation.token";

  /** Task property: records between two borders in the sparse parts of the offset map. */
  static final String SPACING = "replication.spacing";

  /** Task property: bytes of a batch that a topic takes, {@code ,*=131072,A.orders=60000,}. */
  static final String LIMITS = "replication.limits";

  private static final String UNLIMITED = ",*=" + Integer.MAX_VALUE + ",";

  // Static, so that the executor's reports find them: producers live in Spark's own pool.
  private static final Set<PreserveTimestamps> OPEN = ConcurrentHashMap.newKeySet();
  private static final ThreadLocal<Sending> SENDING = ThreadLocal.withInitial(Sending::new);

  private final Map<TopicPartition, PartitionCopy> copies = new ConcurrentHashMap<>();
  private PartitionCopy lastAcknowledged;
  private int batchSize;

  /** What a task's thread is sending. One task writes one partition, so this changes rarely. */
  private static final class Sending {
    private PreserveTimestamps producer;
    private long task;
    private String topic;
    private Integer partition;
    private PartitionCopy copy;
    private String refusal;

    private boolean continues(
        PreserveTimestamps by, long attempt, ProducerRecord<byte[], byte[]> record) {
      return producer == by
          && task == attempt
          && record.partition().equals(partition)
          && record.topic().equals(topic);
    }
  }

  /** Records of {@code flow} that this JVM has sent and the target has not answered, in decimals. */
  public static String unacknowledged(String flow) {
    long[] sum = {0};
    forEachCopy((tp, copy) -> sum[0] += copy.unacknowledged(flow));
    return Long.toString(sum[0]);
  }

  static void forEachCopy(BiConsumer<TopicPartition, PartitionCopy> action) {
    OPEN.forEach(producer -> producer.copies.forEach(action));
  }

  @Override
  public void configure(Map<String, ?> configs) {
    Object given = configs.get("batch.size");
    batchSize = given == null ? 16_384 : Integer.parseInt(given.toString()); // Kafka's default
    OPEN.add(this);
  }

  @Override
  public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
    try {
      Sending sending = SENDING.get();
      TaskContext task = TaskContext.get();
      long attempt = task == null ? -1 : task.taskAttemptId();
      if (!sending.continues(this, attempt, record)) {
        start(sending, task, attempt, record);
      }
      if (sending.refusal != null) {
        return unsendable(record, sending.refusal);
      }
      if (ExecutorReports.isCutOff()) {
        return unsendable(record, "this executor has lost its driver");
      }
      return original(record, sending);
    } catch (RuntimeException e) {
      return unsendable(record, e.toString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return unsendable(record, "the task was cancelled");
    }
  }

  private void start(
      Sending sending, TaskContext task, long attempt, ProducerRecord<byte[], byte[]> record) {
    TopicPartition tp = new TopicPartition(record.topic(), record.partition());
    PartitionCopy copy = copies.computeIfAbsent(tp, PartitionCopy::new);
    sending.producer = this;
    sending.task = attempt;
    sending.topic = record.topic();
    sending.partition = record.partition();
    sending.copy = copy;
    if (task != null && isSecondAttempt(task)) {
      sending.refusal = "a second attempt";
    } else if (!copy.begin(attempt, property(task, GENERATION, ""), property(task, SPACING, "0"))) {
      sending.refusal = "records of an earlier task are still in flight";
    } else {
      sending.refusal = null;
      copy.limitBatches(batchSize, limit(property(task, LIMITS, UNLIMITED), record.topic()));
    }
  }

  private static int limit(String limits, String topic) {
    int own = limits.indexOf("," + topic + "=");
    int from = limits.indexOf('=', own < 0 ? limits.indexOf(",*=") : own) + 1;
    return Integer.parseInt(limits.substring(from, limits.indexOf(',', from)));
  }

  static boolean isSecondAttempt(TaskContext task) {
    return task.attemptNumber() > 0 || task.stageAttemptNumber() > 0;
  }

  private static String property(TaskContext task, String name, String otherwise) {
    String value = task == null ? null : task.getLocalProperty(name);
    return value == null ? otherwise : value;
  }

  private static ProducerRecord<byte[], byte[]> original(
      ProducerRecord<byte[], byte[]> record, Sending sending) throws InterruptedException {
    byte[] carried = record.key();
    if (carried == null || carried.length < CARRIER_BYTES) {
      return unsendable(record, "a key without a carrier");
    }
    ByteBuffer carrier = ByteBuffer.wrap(carried);
    if (carrier.getInt() != CARRIER) {
      return unsendable(record, "a key without a carrier");
    }
    long timestamp = carrier.getLong();
    long offset = carrier.getLong();
    boolean hasKey = offset >= 0; // otherwise it is the offset's complement
    byte[] key = hasKey ? Arrays.copyOfRange(carried, CARRIER_BYTES, carried.length) : null;
    sending.copy.sent(hasKey ? offset : ~offset, size(key, record.value(), record.headers()));
    return new ProducerRecord<>(
        sending.topic, // equal to the record's, but the producer's maps have its hash code already
        sending.partition,
        timestamp < 0 ? null : timestamp, // without one, the producer takes the present
        key,
        record.value(),
        record.headers());
  }

  /** Bytes of a record in a batch, at most. */
  private static int size(byte[] key, byte[] value, Headers headers) {
    int bytes = BatchRoom.RECORD_OVERHEAD + length(key) + length(value);
    for (Header header : headers) {
      bytes += 2 * 5 + 3 * header.key().length() + length(header.value()); // two varints
    }
    return bytes;
  }

  private static int length(byte[] octets) {
    return octets == null ? 0 : octets.length;
  }

  private static ProducerRecord<byte[], byte[]> unsendable(
      ProducerRecord<byte[], byte[]> record, String reason) {
    String topic = "replication: " + reason + " on " + record.topic() + "-" + record.partition();
    return new ProducerRecord<>(topic, null);
  }

  /** Called once per record, also for one that failed before it reached a batch. */
  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
    PartitionCopy copy = metadata == null ? null : copy(metadata.topic(), metadata.partition());
    if (copy == null) {
      return;
    }
    if (exception == null) {
      copy.acknowledged(metadata.hasOffset() ? metadata.offset() : -1);
    } else if (SENDING.get().copy == copy) {
      copy.notSent(); // the call is still in send(), in the task's own thread
    } else {
      copy.failed(exception);
    }
  }

  private PartitionCopy copy(String topic, int partition) {
    PartitionCopy last = lastAcknowledged; // acknowledgements come in batches of one partition
    if (last == null || !last.isOf(topic, partition)) {
      last = copies.get(new TopicPartition(topic, partition));
      lastAcknowledged = last;
    }
    return last;
  }

  @Override
  public void close() {
    OPEN.remove(this);
  }
}
