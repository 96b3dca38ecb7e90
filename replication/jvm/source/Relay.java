package replication.source;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.common.TopicPartition;

/**
 * What two queries share that read the same partitions in turn, in one process.
 *
 * <p>While the tasks of one query pass records on, the other query ends its batch, plans the next
 * one, and has its tasks wait. A task that has read for long enough ends when its successor waits,
 * so that no record waits for the driver. It gives its consumer back after the sink has flushed,
 * and nobody else has that meanwhile: each partition's order stays. Where a task went on is known
 * here and not by Spark, whose offsets are those of one query.
 */
final class Relay {
  private static final Map<String, Relay> RUNNING = new ConcurrentHashMap<>();

  private static final Relay ENDED = new Relay("", 0, null);

  static {
    ENDED.isOver = true;
  }

  private final String name;
  private final long leastNanos;
  private final PartitionTasks partitionTasks;
  private final Map<String, Turns> turnsOf = new ConcurrentHashMap<>(); // by share
  private final Map<TopicPartition, Long> next = new ConcurrentHashMap<>(); // that was passed on
  private final Map<TopicPartition, Integer> epochs = new ConcurrentHashMap<>(); // of what was
  private final Set<TopicPartition> read = ConcurrentHashMap.newKeySet(); // by a task, now
  private final Set<Object> running = new HashSet<>(); // queries whose batch is planned
  private volatile boolean isHurried;
  private volatile boolean isOver;

  private Relay(String name, long leastMs, PartitionTasks partitionTasks) {
    this.name = name;
    leastNanos = TimeUnit.MILLISECONDS.toNanos(leastMs);
    this.partitionTasks = partitionTasks;
  }

  /** Begins one, whose tasks read for {@code leastMs} before they hand over. */
  static Relay begin(String name, long leastMs, PartitionTasks partitionTasks) {
    return RUNNING.computeIfAbsent(name, same -> new Relay(same, leastMs, partitionTasks));
  }

  /** The one that has begun and not ended. */
  static Relay of(String name) {
    Relay relay = RUNNING.get(name);
    if (relay == null) { // to begin anew would repeat records
      throw new IllegalStateException("the query that reads in turn with this one has ended");
    }
    return relay;
  }

  /** The turns of a share. */
  static Turns turns(TaskShare share) {
    Relay relay = RUNNING.getOrDefault(share.relay(), ENDED);
    return relay == ENDED
        ? new Turns(ENDED)
        : relay.turnsOf.computeIfAbsent(share.consumerKey(), key -> new Turns(relay));
  }

  /** Ends it: nobody takes a turn any more. */
  void end() {
    isOver = true;
    RUNNING.remove(name, this);
    turnsOf.values().forEach(Turns::end);
  }

  boolean isOver() {
    return isOver;
  }

  boolean isLongEnough(long nanos) {
    return nanos >= leastNanos;
  }

  /** Whether all tasks should end, so that partitions can move. */
  boolean isHurried() {
    return isHurried;
  }

  /** Lets a task read: nobody else reads the same partitions, or records would be there twice. */
  void claim(Collection<TaskShare.Range> ranges) {
    for (TaskShare.Range range : ranges) {
      if (!read.add(range.partition())) {
        throw new IllegalStateException("another task reads " + range.partition());
      }
    }
  }

  /** Takes note of what a task has passed on, which ends well. */
  void passed(SourceOffsets offsets) {
    epochs.keySet().removeAll(offsets.map().keySet());
    epochs.putAll(offsets.epochs());
    next.putAll(offsets.map());
    read.removeAll(offsets.map().keySet());
  }

  /** What is left to read: a query's own offsets are where it stood in its last batch. */
  List<TaskShare.Range> rest(Collection<TaskShare.Range> ranges) {
    List<TaskShare.Range> rest = new ArrayList<>();
    for (TaskShare.Range range : ranges) {
      TopicPartition tp = range.partition();
      Long from = next.get(tp);
      rest.add(from == null ? range : new TaskShare.Range(tp, from, range.until(), epochs.get(tp)));
    }
    return rest;
  }

  /**
   * A query plans its next batch. If partitions should move to other tasks, it waits until the
   * batch of the other query has ended, since a partition has one reader.
   */
  synchronized PartitionTasks plan(Object query, Map<TopicPartition, Long> starts) {
    await(() -> isHurried);
    Map<TopicPartition, Long> now = new HashMap<>(starts);
    now.putAll(next);
    Map<TopicPartition, Integer> moves = partitionTasks.moves(now);
    if (!moves.isEmpty()) {
      isHurried = true;
      turnsOf.values().forEach(Turns::wakeUp);
      await(() -> running.stream().anyMatch(other -> other != query));
      isHurried = false;
      partitionTasks.move(moves);
      notifyAll();
    }
    running.add(query);
    return partitionTasks;
  }

  private void await(BooleanSupplier isEarly) {
    try {
      while (isEarly.getAsBoolean() || isOver) {
        wait(); // if it is over, this query is stopped soon, and its thread interrupted
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException("while another query reads"));
    }
  }

  /** A batch of a query has ended. */
  synchronized void ended(Object query) {
    running.remove(query);
    notifyAll();
  }

  /** Ends all, when the process ends. */
  static void endAll() {
    RUNNING.values().forEach(Relay::end);
  }
}
