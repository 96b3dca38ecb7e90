package replication.source;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import replication.producer.RateLimit;
import replication.producer.SchemaGate;
import replication.producer.SchemaIds;
import replication.producer.Throttle;

/**
 * The partitions of a task that stand although they have records: their topics have used up a limit
 * of their own for now, a registry does not know the schema of the next record yet, or the target
 * has not acknowledged the first record yet.
 *
 * <p>A record that waited for that in the producer would hold up all partitions of the task. Here
 * only its own partition stands, and the others go on.
 *
 * <p>What stands keeps no more than a task's share of the memory: the limits of topics have equal
 * parts of it at most. What waits for a schema keeps nothing. The rest is fetched again.
 */
final class HeldUp {
  /** How long a batch waits for first answers before it goes on without. */
  private static final long SOON_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final long LOOK_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

  /** What a partition waits for. */
  private interface Cause {
    /** The bytes of a partition's records that may be kept. */
    long room();

    default void begin(FetchedPartition partition) {}

    boolean isOver(FetchedPartition partition);

    default void end(FetchedPartition partition) {}
  }

  /**
   * A limit that is used up. Once its partitions keep all that they may, nothing of those without
   * records is fetched, until half of it has gone: it would only be fetched again.
   */
  private final class Spent implements Cause {
    private final RateLimit limit;
    private int partitions;
    private long kept; // bytes
    private boolean isFull;

    private Spent(RateLimit limit) {
      this.limit = limit;
      limit.beginWait();
    }

    private long share() {
      return most / Math.max(1, throttle.count());
    }

    @Override
    public long room() {
      return Math.max(0, Math.min(share() - kept, most - keptByAll));
    }

    @Override
    public void begin(FetchedPartition partition) {
      partitions++;
      kept += partition.bytes();
    }

    @Override
    public boolean isOver(FetchedPartition partition) {
      return (partition.hasRecords() || kept <= share() / 2) && !limit.isUsedUp();
    }

    @Override
    public void end(FetchedPartition partition) {
      isFull &= partition.hasRecords();
      kept -= partition.bytes();
      if (--partitions == 0) {
        limit.endWait();
        spent.remove(limit);
      }
    }
  }

  private record Unknown(SchemaIds.Want want, long offset) implements Cause {
    @Override
    public long room() {
      return 0;
    }

    @Override
    public boolean isOver(FetchedPartition partition) {
      return want.isOver() && !want.isLeaving(); // what the driver knows as left is left
    }

    @Override
    public void end(FetchedPartition partition) {
      want.end();
    }
  }

  /** The first record's acknowledgement, as in {@link replication.producer.BatchRoom}. */
  private final class Unanswered implements Cause {
    @Override
    public long room() {
      return Math.max(0, most - keptByAll);
    }

    @Override
    public boolean isOver(FetchedPartition partition) {
      return !partition.awaitsFirst();
    }
  }

  private final Map<FetchedPartition, Cause> partitions = new LinkedHashMap<>();
  private final Map<RateLimit, Spent> spent = new HashMap<>();
  private final Cause unanswered = new Unanswered();
  private final Set<FetchedPartition> fresh = new LinkedHashSet<>(); // may be answered soon
  private long patienceNanos = SOON_NANOS; // for those
  private final long most;
  private long keptByAll; // bytes
  private Throttle throttle;
  private SchemaGate gate;

  /** Keeps at most so many bytes. */
  HeldUp(long most) {
    this.most = most;
  }

  /** Goes by the limits of a flow from now on. */
  void follow(Throttle ofFlow) {
    throttle = ofFlow;
  }

  /** Lets no record through from now on whose schema is not known; any if it is null. */
  void follow(SchemaGate ofTask) {
    gate = ofTask;
  }

  boolean isEmpty() {
    return partitions.isEmpty() && fresh.isEmpty();
  }

  /**
   * Takes a partition whose next record has to wait; tells whether it does. The client fetches
   * nothing of it meanwhile, nor of others of the {@code open} ones that would only wait as well.
   */
  boolean takes(
      FetchedPartition partition, Collection<FetchedPartition> open, Consumer<?, ?> client) {
    Cause cause = cause(partition);
    if (cause == null) {
      return false;
    }
    if (cause == unanswered && patienceNanos > 0) {
      return fresh.add(partition);
    }
    boolean isTooMuch = hold(partition, cause, client);
    if (isTooMuch && cause instanceof Spent full && !full.isFull) {
      full.isFull = true;
      Set<TopicPartition> paused = client.paused(); // held up already, or by an operator
      for (FetchedPartition other : open) {
        boolean isOfLimit = full.limit.isOfUpstream(other.partition.topic());
        if (isOfLimit && !other.hasRecords() && !paused.contains(other.partition)) {
          hold(other, full, client);
        }
      }
    }
    return true;
  }

  private Cause cause(FetchedPartition partition) {
    if (partition.awaitsFirst()
        && partition.hasRecords()
        && !partition.isPassed(partition.next())) {
      return unanswered;
    }
    boolean isLimited = throttle != null && throttle.isLimited();
    if (isLimited && !partition.isPassed(partition.next())) {
      Spent limit = limit(partition);
      if (limit != null) {
        return limit;
      }
    }
    ConsumerRecord<byte[], byte[]> record =
        gate == null || !partition.hasRecords() ? null : partition.unchecked();
    SchemaIds.Want want = record == null ? null : gate.ask(record);
    return want == null ? null : new Unknown(want, record.offset());
  }

  private Spent limit(FetchedPartition partition) {
    String topic = partition.partition.topic();
    if (partition.hasRecords()) {
      RateLimit limit = throttle.usedUp(topic);
      return limit == null ? null : spent.computeIfAbsent(limit, Spent::new);
    }
    for (Spent limit : spent.values()) {
      if (limit.isFull && limit.limit.isOfUpstream(topic)) {
        return limit;
      }
    }
    return null;
  }

  /** Tells whether the partition has more records than may be kept. */
  private boolean hold(FetchedPartition partition, Cause cause, Consumer<?, ?> client) {
    boolean isTooMuch = partition.keep(cause.room());
    if (isTooMuch) { // what the client has of it is of no use then
      client.seek(partition.partition, partition.fetchedPlace());
    }
    client.pause(List.of(partition.partition)); // or it would hand out what follows
    partitions.put(partition, cause);
    keptByAll += partition.bytes();
    cause.begin(partition);
    return isTooMuch;
  }

  /**
   * Waits for answers to first records; tells whether the client is not to be asked yet. Without
   * these partitions it would fetch the others alone, and such a fetch lasts for long where those
   * are at rest. Once a second has passed in a batch, the target is slow or silent: the others go
   * on.
   */
  boolean awaitsAnswers(Duration patience, Consumer<?, ?> client) {
    if (fresh.isEmpty()) {
      return false;
    }
    long begun = System.nanoTime();
    long longest = Math.min(patience.toNanos(), patienceNanos);
    while (fresh.stream().allMatch(FetchedPartition::awaitsFirst)
        && System.nanoTime() - begun < longest
        && !Thread.currentThread().isInterrupted()) {
      LockSupport.parkNanos(this, LOOK_NANOS);
    }
    patienceNanos -= System.nanoTime() - begun;
    if (patienceNanos <= 0) {
      fresh.forEach(partition -> hold(partition, unanswered, client));
      fresh.clear();
    }
    return !fresh.isEmpty() && !Thread.currentThread().isInterrupted(); // the client says so
  }

  /** Gives back those that may go on. */
  List<FetchedPartition> release(Consumer<?, ?> client) {
    List<FetchedPartition> answered = new ArrayList<>(fresh);
    answered.removeIf(FetchedPartition::awaitsFirst);
    answered.forEach(fresh::remove);
    List<FetchedPartition> released = new ArrayList<>();
    partitions.forEach(
        (partition, cause) -> {
          if (cause.isOver(partition)) {
            released.add(partition);
          }
        });
    for (FetchedPartition partition : released) {
      if (drop(partition) instanceof Unknown unknown && unknown.want.isRefused()) {
        partition.letThrough(
            unknown.offset); // the producer asks once more, and fails with the task
      }
    }
    client.resume(released.stream().map(one -> one.partition).toList());
    released.addAll(answered);
    return released;
  }

  /**
   * Gives up those that wait for a schema in vain, once all that is {@code open} waits for one: the
   * batch ends before their next record. The driver has to know of it first, so a later call gives
   * them back.
   */
  List<FetchedPartition> leave(Collection<FetchedPartition> open) {
    List<FetchedPartition> left = new ArrayList<>();
    for (FetchedPartition partition : open) {
      if (!(partitions.get(partition) instanceof Unknown)) {
        return List.of();
      }
    }
    for (FetchedPartition partition : open) {
      Unknown unknown = (Unknown) partitions.get(partition);
      if (unknown.want.isLeft()) {
        drop(partition);
        left.add(partition);
      } else if (unknown.want.isInVain() && !unknown.want.isLeaving()) {
        gate.leave(unknown.want, partition.partition, unknown.offset);
      }
    }
    return left;
  }

  /** All that the client is not to fetch. */
  List<TopicPartition> paused() {
    return partitions.keySet().stream().map(held -> held.partition).toList();
  }

  /** Forgets one that is not to be read now; gives what it waits for, which may be nothing. */
  Cause drop(FetchedPartition partition) {
    fresh.remove(partition);
    Cause cause = partitions.remove(partition);
    if (cause != null) {
      keptByAll -= partition.bytes();
      cause.end(partition);
    }
    return cause;
  }

  /** Forgets all of them, as a batch begins. */
  void clear() {
    fresh.clear();
    patienceNanos = SOON_NANOS;
    List.copyOf(partitions.keySet()).forEach(this::drop);
  }
}
