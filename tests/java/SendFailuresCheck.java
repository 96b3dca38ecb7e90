package replication.producer;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import scala.collection.immutable.Map$;

/**
 * Real producers whose sends fail in every way, in random order: what is in flight by the
 * interceptor's count is what Kafka's client has taken and not ended.
 *
 * <p>Arguments: servers, topic (its largest batch has 10 000 bytes), its partitions, the broker's
 * process, the seed.
 */
public final class SendFailuresCheck {
  private static final String CLIENT = "send-failures";
  private static final String GENERATION = "A->B#1";
  private static final int STEPS = 40;
  private static final int PATIENCE_MS = 60_000;

  /** Ways in which a send fails, and two in which it does not. */
  private enum Fault {
    NONE,
    STILL_NONE,
    NO_CARRIER,
    BEFORE_THROWS,
    BEFORE_RENAMES,
    BEHIND_THROWS,
    BEHIND_RENAMES,
    BEHIND_ERROR,
    LEASE_LOST,
    SERIALIZER_THROWS,
    SERIALIZER_ERROR,
    UNKNOWN_PARTITION,
    INTERRUPTED,
    TOO_LARGE_FOR_CLIENT,
    TOO_LARGE_FOR_BROKER,
    FENCED,
  }

  private static final ThreadLocal<Fault> FAULT = ThreadLocal.withInitial(() -> Fault.NONE);
  private static final AtomicLong ATTEMPTS = new AtomicLong();
  private static final Map<Fault, AtomicLong> SEEN = new ConcurrentHashMap<>();

  private final Random random;
  private final String servers;
  private final String topic;
  private final int partitions;
  private final String broker;
  private final Queue<Future<RecordMetadata>> taken = new ConcurrentLinkedQueue<>();
  private final Queue<Throwable> problems = new ConcurrentLinkedQueue<>();

  private SendFailuresCheck(String[] arguments, long seed) {
    servers = arguments[0];
    topic = arguments[1];
    partitions = Integer.parseInt(arguments[2]);
    broker = arguments[3];
    random = new Random(seed);
  }

  public static void main(String[] arguments) throws Exception {
    long seed = Long.parseLong(arguments[4]);
    for (boolean isPaused : new boolean[] {false, true}) {
      for (boolean isTransactional : new boolean[] {false, true}) {
        new SendFailuresCheck(arguments, seed++).run(isPaused, isTransactional);
      }
    }
    for (Fault fault : Fault.values()) {
      check(SEEN.containsKey(fault), "no " + fault + " was tried; take another seed");
    }
    System.out.println("ok");
  }

  private void run(boolean isPaused, boolean isTransactional) throws Exception {
    KafkaProducer<byte[], byte[]> producer = producer(isTransactional);
    List<PartitionCopy> copies = new ArrayList<>();
    List<Thread> tasks = new ArrayList<>();
    for (int partition = 0; partition < partitions; partition++) {
      int number = partition;
      Random own = new Random(random.nextLong());
      tasks.add(new Thread(() -> task(producer, number, own, isTransactional)));
    }
    tasks.forEach(
        task -> task.setDaemon(true)); // one that hangs fails the check, and does not hold it
    tasks.forEach(Thread::start);
    if (isPaused) {
      Thread.sleep(random.nextInt(300));
      signal("STOP");
      Thread.sleep(1_500); // longer than a delivery may take, and than a send waits for the buffer
      awaitCount("while the broker is paused");
      signal("CONT");
    }
    for (Thread task : tasks) {
      task.join(PATIENCE_MS);
      check(!task.isAlive(), "a task waits for ever");
    }
    if (!problems.isEmpty()) {
      throw new AssertionError(problems.peek());
    }
    awaitCount("in the end");
    PreserveTimestamps.forEachCopy(copies::add);
    producer.close();
    check(taken.stream().allMatch(Future::isDone), "the producer has ended what it had taken");
    for (PartitionCopy copy : copies) {
      check(copy.unacknowledged("A->B") == 0, "nothing is in flight behind a closed producer");
      check(copy.begin(-7, GENERATION, "0"), "the next task may write");
    }
  }

  /** A task, and the next one after each failure, as Spark has them. */
  private void task(
      KafkaProducer<byte[], byte[]> producer, int partition, Random own, boolean isTransactional) {
    try {
      TaskContextImpl context = context();
      for (int step = 0; step < STEPS; step++) {
        Fault fault = Fault.values()[own.nextInt(Fault.values().length)];
        if (fault == Fault.FENCED && (!isTransactional || step < STEPS / 2)) {
          continue;
        }
        SEEN.computeIfAbsent(fault, unused -> new AtomicLong()).incrementAndGet();
        if (!send(producer, partition, fault, context, own)) {
          awaitNoneOf(partition); // as the loop does, before the next generation's tasks
          context = context();
        }
      }
    } catch (Throwable e) {
      problems.add(e);
    }
  }

  private boolean send(
      KafkaProducer<byte[], byte[]> producer,
      int partition,
      Fault fault,
      TaskContextImpl context,
      Random own) {
    FAULT.set(fault);
    int size = size(fault, own);
    byte[] key = fault == Fault.NO_CARRIER ? new byte[3] : carrier(own.nextInt(1_000));
    int number = fault == Fault.UNKNOWN_PARTITION || fault == Fault.INTERRUPTED ? 99 : partition;
    try {
      if (fault == Fault.INTERRUPTED) {
        Thread.currentThread().interrupt();
      }
      if (fault == Fault.FENCED) {
        producer(true).close(); // its place is taken
      }
      Future<RecordMetadata> future =
          producer.send(new ProducerRecord<>(topic, number, key, new byte[size]));
      taken.add(future);
      return !future.isDone();
    } catch (Throwable e) {
      context.markTaskFailed(e);
      return false;
    } finally {
      Thread.interrupted();
      FAULT.set(Fault.NONE);
    }
  }

  private static int size(Fault fault, Random own) {
    return switch (fault) {
      case TOO_LARGE_FOR_CLIENT -> 30_000;
      case TOO_LARGE_FOR_BROKER -> 15_000;
      default -> 100 + own.nextInt(3_000);
    };
  }

  /** What Kafka's client has taken and not ended, and the interceptor's count, are the same. */
  private void awaitCount(String when) throws InterruptedException {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (true) {
      long left = taken.stream().filter(future -> !future.isDone()).count();
      long counted = Long.parseLong(PreserveTimestamps.unacknowledged("A->B"));
      if (left == counted) {
        return;
      }
      check(
          System.currentTimeMillis() < deadline, counted + " in flight, not " + left + ' ' + when);
      Thread.sleep(5);
    }
  }

  private void awaitNoneOf(int partition) throws InterruptedException {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    long[] left = {1};
    while (left[0] > 0) {
      left[0] = 0;
      PreserveTimestamps.forEachCopy(
          copy -> left[0] += copy.isOf(topic, partition) ? copy.unacknowledged("A->B") : 0);
      check(System.currentTimeMillis() < deadline, left[0] + " stay in flight to " + partition);
      Thread.sleep(5);
    }
  }

  private KafkaProducer<byte[], byte[]> producer(boolean isTransactional) {
    OwnerOnly.remove(CLIENT);
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", servers);
    config.put("client.id", CLIENT);
    config.put("key.serializer", ByteArraySerializer.class.getName());
    config.put("value.serializer", Faulty.class.getName());
    config.put(
        "interceptor.classes",
        List.of(Before.class, PreserveTimestamps.class, OwnerOnly.class, Behind.class).stream()
            .map(Class::getName)
            .toList());
    config.put("max.request.size", 20_000);
    config.put("buffer.memory", 40_000);
    config.put("batch.size", 4_000);
    config.put("linger.ms", 0);
    config.put("max.block.ms", 300);
    config.put("request.timeout.ms", 500);
    config.put("delivery.timeout.ms", 1_000);
    if (isTransactional) {
      config.put("transactional.id", topic);
    }
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
    if (isTransactional) {
      begin(producer);
    }
    return producer;
  }

  private static void begin(KafkaProducer<byte[], byte[]> producer) {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (true) {
      try {
        producer.initTransactions();
        producer.beginTransaction();
        return;
      } catch (TimeoutException e) { // the coordinator's topic is being made
        check(System.currentTimeMillis() < deadline, e.toString());
      }
    }
  }

  private static TaskContextImpl context() {
    Properties properties = new Properties();
    properties.put(PreserveTimestamps.GENERATION, GENERATION);
    TaskContextImpl context =
        new TaskContextImpl(
            0,
            0,
            0,
            ATTEMPTS.incrementAndGet(),
            0,
            1,
            null,
            properties,
            null,
            null,
            1,
            Map$.MODULE$.empty());
    TaskContext$.MODULE$.setTaskContext(context);
    return context;
  }

  private static byte[] carrier(long offset) {
    return ByteBuffer.allocate(20).putInt(0x8f6f7267).putLong(1).putLong(offset).array();
  }

  private void signal(String name) throws Exception {
    check(new ProcessBuilder("kill", "-" + name, broker).start().waitFor() == 0, "kill");
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  /** Fails or renames records before the mirror's interceptors, or behind them. */
  private abstract static class Meddling implements ProducerInterceptor<byte[], byte[]> {
    ProducerRecord<byte[], byte[]> meddle(
        ProducerRecord<byte[], byte[]> record, Fault throwing, Fault renaming) {
      Fault fault = FAULT.get();
      if (fault == throwing) {
        throw new IllegalStateException("an interceptor");
      }
      return fault == renaming ? new ProducerRecord<>("renamed: " + record.topic(), null) : record;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> configs) {}
  }

  /** Before them. */
  public static final class Before extends Meddling {
    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
      if (FAULT.get() == Fault.LEASE_LOST) {
        OwnerOnly.allowUntil(CLIENT, System.nanoTime() - 1);
      }
      return meddle(record, Fault.BEFORE_THROWS, Fault.BEFORE_RENAMES);
    }
  }

  /** Behind them. */
  public static final class Behind extends Meddling {
    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
      OwnerOnly.remove(CLIENT);
      if (FAULT.get() == Fault.BEHIND_ERROR) {
        throw new NoClassDefFoundError("an interceptor's");
      }
      return meddle(record, Fault.BEHIND_THROWS, Fault.BEHIND_RENAMES);
    }
  }

  /** A serializer that fails with what Kafka reports to interceptors, or with what it does not. */
  public static final class Faulty implements Serializer<byte[]> {
    @Override
    public byte[] serialize(String topic, byte[] bytes) {
      switch (FAULT.get()) {
        case SERIALIZER_THROWS -> throw new ClassCastException("a serializer");
        case SERIALIZER_ERROR -> throw new NoClassDefFoundError("a codec's");
        default -> {
          return bytes;
        }
      }
    }
  }
}
