package replication.producer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskFailureListener;

/**
 * Gives a copied record the timestamp of its original and remembers the original's offset until the
 * target acknowledges the copy. Spark's Kafka sink has a column for neither.
 *
 * <p>The query puts both before the key; the interceptor removes that carrier. Kafka logs and
 * swallows what an interceptor throws, and would then send the record with the wrong time and the
 * wrong key. Hence a record that must not be written goes to a topic name that no broker accepts:
 * the send fails at once, and with it the Spark task. Such records are those whose carrier cannot
 * be read, and all records of a task's second attempt, which would repeat what the first one wrote:
 * Spark runs the tasks of a lost executor again, whatever {@code spark.task.maxFailures} says.
 */
public final class PreserveTimestamps implements ProducerInterceptor<byte[], byte[]> {
  /** Begins a carrier, which also has the original's epoch milliseconds and offset. */
  private static final int CARRIER = 0x8f6f7267;

  private static final int CARRIER_BYTES = Integer.BYTES + 2 * Long.BYTES;

  /**
   * Task property: the token that reports of a generation need, a tab, and the generation that a
   * record belongs to, {@code A->B#7}. Spark hides the values of settings with such a name.
   */
  public static final String GENERATION = "replication.generation.token";

  /** Task property: records between two borders in the sparse parts of the offset map. */
  static final String SPACING = "replication.spacing";

  /** Task property: bytes of a batch that a topic takes, {@code ,*=131072,A.orders=60000,}. */
  static final String LIMITS = "replication.limits";

  private static final String UNLIMITED = ",*=" + Integer.MAX_VALUE + ",";

  private static final long NOTHING = Long.MIN_VALUE; // in place of an offset

  // Static, so that the executor's reports find them: producers live in Spark's own pool.
  private static final Set<PreserveTimestamps> OPEN = ConcurrentHashMap.newKeySet();
  private static final ThreadLocal<Sending> SENDING = ThreadLocal.withInitial(Sending::new);
  private static volatile boolean isCutOff;

  private final Map<TopicPartition, PartitionCopy> copies = new ConcurrentHashMap<>();
  private final Set<PartitionCopy> busy = ConcurrentHashMap.newKeySet();
  private PartitionCopy lastAcknowledged;
  private int batchSize;
  private String clientId;

  /** What a task's thread is sending. One task writes one partition, so this changes rarely. */
  private static final class Sending {
    private PreserveTimestamps producer;
    private long task;
    private String topic;
    private Integer partition;
    private PartitionCopy copy;
    private Throttle throttle;
    private SchemaIds schemas; // null if its records carry no ids of schemas
    private boolean mustHaveSchema;
    private String refusal;
    private boolean isHandedOver; // its newest record is counted, and send() may have it still
    private long offset = NOTHING; // of that record's original, until somebody asks

    private boolean continues(
        PreserveTimestamps by, long attempt, ProducerRecord<byte[], byte[]> record) {
      return producer == by
          && task == attempt
          && record.partition().equals(partition)
          && record.topic().equals(topic);
    }

    /** Takes back the record that {@code by} could not send; false if none was counted. */
    private boolean takeBack(PreserveTimestamps by) {
      if (producer != by || !isHandedOver) {
        return false;
      }
      isHandedOver = false;
      copy.notSent();
      return true;
    }

    /**
     * A task has failed: Kafka tells interceptors of exceptions in send(), and of no other errors.
     */
    private void failed(long attempt, Throwable reason) {
      if (task == attempt && isErrorOfSend(reason)) {
        takeBack(producer);
      }
    }

    private static boolean isErrorOfSend(Throwable reason) {
      return reason instanceof Error
          && Arrays.stream(reason.getStackTrace()).anyMatch(Sending::isSend);
    }

    private static boolean isSend(StackTraceElement frame) {
      return frame.getClassName().equals(KafkaProducer.class.getName())
          && frame.getMethodName().equals("send");
    }
  }

  /**
   * Records of {@code flow} that this JVM has sent and the target has not answered, in decimals.
   */
  public static String unacknowledged(String flow) {
    long[] sum = {0};
    forEachBusy(copy -> sum[0] += copy.unacknowledged(flow));
    return Long.toString(sum[0]);
  }

  /** The client ids of the producers that have records of {@code flow} in flight. */
  public static Set<String> clientsWithRecords(String flow) {
    Set<String> found = new HashSet<>();
    for (PreserveTimestamps producer : OPEN) {
      if (producer.copies.values().stream().anyMatch(copy -> copy.unacknowledged(flow) > 0)) {
        found.add(producer.clientId);
      }
    }
    return found;
  }

  /**
   * To where this task has sent the record that was read at {@code offset} of a partition with that
   * number; null if its last one was another, or this was asked before.
   */
  public static PartitionCopy lastSent(int partition, long offset) {
    Sending sending = SENDING.get();
    if (sending.offset != offset || sending.partition != partition) {
      return null;
    }
    sending.offset = NOTHING; // that of another topic may have the same place
    return sending.task == attempt(TaskContext.get()) ? sending.copy : null;
  }

  /** Calls {@code action} with what each producer of this process writes to a partition. */
  static void forEachCopy(Consumer<PartitionCopy> action) {
    OPEN.forEach(producer -> producer.copies.values().forEach(action));
  }

  /** Calls {@code action} with those of which something is in flight, or was not reported yet. */
  public static void forEachBusy(Consumer<PartitionCopy> action) {
    OPEN.forEach(producer -> producer.busy.forEach(action));
  }

  /**
   * Forgets partitions of older generations to which nothing was sent for long, so that topics that
   * come and go leave nothing behind in a producer that lives on.
   */
  public static void dropIdle(LongPredicate isRunning, long idleNanos) {
    Map<String, Long> newest = new HashMap<>();
    forEachCopy(copy -> copy.noteGeneration(newest));
    for (PreserveTimestamps producer : OPEN) {
      for (TopicPartition tp : producer.copies.keySet()) {
        producer.copies.computeIfPresent(
            tp, (same, copy) -> copy.isOver(newest, isRunning, idleNanos) ? null : copy);
      }
    }
  }

  /** No producer of this process sends any more: it has lost its driver. */
  public static void cutOff() {
    isCutOff = true;
  }

  @Override
  public void configure(Map<String, ?> configs) {
    Object given = configs.get("batch.size");
    batchSize = given == null ? 16_384 : Integer.parseInt(given.toString()); // Kafka's default
    clientId = String.valueOf(configs.get("client.id"));
    OPEN.add(this);
  }

  @Override
  public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
    Sending sending = SENDING.get();
    sending.isHandedOver = false; // the record before was taken, or it has failed by now
    sending.offset = NOTHING;
    try {
      TaskContext task = TaskContext.get();
      long attempt = attempt(task);
      if (!sending.continues(this, attempt, record)) {
        start(sending, task, attempt, record);
      }
      if (sending.refusal != null) {
        return unsendable(record, sending.refusal);
      }
      if (sending.schemas != null) { // before the lease is looked at, and the record counted
        translate(record, sending);
      }
      if (sending.throttle.isLimited()) {
        sending.throttle.take(sending.topic, payload(record));
      }
      if (isCutOff) {
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
    boolean isSecond = task != null && isSecondAttempt(task);
    String generation = property(task, GENERATION, "");
    String spacing = property(task, SPACING, "0");
    boolean[] mayBegin = {false};
    PartitionCopy copy =
        copies.compute( // so that it is not dropped before it knows its task
            tp,
            (same, known) -> {
              PartitionCopy kept = known == null ? new PartitionCopy(same, busy) : known;
              mayBegin[0] = !isSecond && kept.begin(attempt, generation, spacing);
              return kept;
            });
    if (task != null && sending.task != attempt) {
      TaskFailureListener listener = (context, reason) -> sending.failed(attempt, reason);
      task.addTaskFailureListener(listener);
    }
    sending.producer = this;
    sending.task = attempt;
    sending.topic = record.topic();
    sending.partition = record.partition();
    sending.copy = copy;
    sending.throttle = Throttle.of(PartitionCopy.flowOf(generation));
    String schemas = property(task, SchemaIds.TOPICS, "");
    sending.schemas = SchemaIds.of(schemas, PartitionCopy.flowOf(generation), record.topic());
    sending.mustHaveSchema = SchemaIds.mustHave(schemas);
    if (isSecond) {
      sending.refusal = "a second attempt";
    } else if (!mayBegin[0]) {
      sending.refusal = "records of an earlier task are still in flight";
    } else {
      sending.refusal = null;
      copy.limitBatches(batchSize, limit(property(task, LIMITS, UNLIMITED), record.topic()));
    }
  }

  private static long attempt(TaskContext task) {
    return task == null ? -1 : task.taskAttemptId();
  }

  private static int limit(String limits, String topic) {
    int own = limits.indexOf("," + topic + "=");
    int from = limits.indexOf('=', own < 0 ? limits.indexOf(",*=") : own) + 1;
    return Integer.parseInt(limits.substring(from, limits.indexOf(',', from)));
  }

  /** Whether Spark runs {@code task} again, which may repeat what its first attempt wrote. */
  public static boolean isSecondAttempt(TaskContext task) {
    return task.attemptNumber() > 0 || task.stageAttemptNumber() > 0;
  }

  private static String property(TaskContext task, String name, String otherwise) {
    String value = task == null ? null : task.getLocalProperty(name);
    return value == null ? otherwise : value;
  }

  /** Replaces ids of schemas in the record's own arrays; waits for those that are not known. */
  private static void translate(ProducerRecord<byte[], byte[]> record, Sending sending)
      throws InterruptedException {
    byte[] carried = record.key();
    if (carried == null || carried.length < CARRIER_BYTES) {
      return; // it will not be sent
    }
    long offset = ByteBuffer.wrap(carried).getLong(Integer.BYTES + Long.BYTES);
    byte[] keyed = offset >= 0 ? carried : null;
    long original = offset >= 0 ? offset : ~offset;
    byte[] value = record.value();
    sending.schemas.translate(
        keyed,
        CARRIER_BYTES,
        value,
        record.headers(),
        sending.partition,
        original,
        sending.mustHaveSchema);
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
    boolean hasKey = offset >= 0;
    long original = hasKey ? offset : ~offset;
    byte[] key = hasKey ? Arrays.copyOfRange(carried, CARRIER_BYTES, carried.length) : null;
    int size = size(key, record.value(), record.headers());
    sending.copy.sent(original, size, timestamp);
    sending.isHandedOver = true;
    sending.offset = original;
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

  /** Bytes of a record's key without the carrier, its value and its headers. */
  private static int payload(ProducerRecord<byte[], byte[]> record) {
    int bytes = Math.max(0, length(record.key()) - CARRIER_BYTES) + length(record.value());
    for (Header header : record.headers()) {
      bytes += header.key().length() + length(header.value());
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

  /**
   * Called for each record that is acknowledged or fails.
   *
   * <p>A record that send() could not hand to a batch fails in the thread of its task. It is known
   * by that thread, not by the topic: the interceptor behind this one may have renamed that. Any
   * other one is known by the topic of its batch. A producer that may not write any more, as after
   * a fatal error, may do both for one record, so {@link PartitionCopy} does not count below zero.
   */
  @Override
  public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
    if (exception != null && SENDING.get().takeBack(this)) {
      return;
    }
    PartitionCopy copy = metadata == null ? null : copy(metadata.topic(), metadata.partition());
    if (copy == null) {
      return;
    }
    if (exception == null) {
      long offset = metadata.hasOffset() ? metadata.offset() : -1;
      copy.acknowledged(offset, bytes(metadata), metadata.timestamp());
    } else {
      copy.failed(exception);
    }
  }

  /** Bytes of a record's key and value; the metadata has -1 for one that is null. */
  private static int bytes(RecordMetadata metadata) {
    return Math.max(0, metadata.serializedKeySize()) + Math.max(0, metadata.serializedValueSize());
  }

  private PartitionCopy copy(String topic, int partition) {
    PartitionCopy last = lastAcknowledged; // acknowledgements come in batches of one partition
    if (last == null || last.isDropped() || !last.isOf(topic, partition)) {
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
