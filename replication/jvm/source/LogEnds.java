package replication.source;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the logs of a query's partitions begin and end, as the driver asks.
 *
 * <p>Kafka's client answers for all partitions or for none: one whose topic is deleted, or that has
 * no leader, would hold up the others until the time is over. Whoever does not answer soon is
 * looked for, and left out for a while.
 */
final class LogEnds implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(LogEnds.class);
  private static final Duration SOON = Duration.ofSeconds(4);
  private static final long LEFT_OUT_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Supplier<Consumer<byte[], byte[]>> connect;
  private final long timeoutNanos;
  private final LongSupplier clock;
  private Set<TopicPartition> said = Set.of();
  private final Set<TopicPartition> leftOut = new HashSet<>();
  private long leftOutAt;
  private Consumer<byte[], byte[]> consumer;

  LogEnds(ClientSettings settings) {
    this(settings::connect, settings.answerMs(), System::nanoTime);
  }

  LogEnds(Supplier<Consumer<byte[], byte[]>> connect, long timeoutMs, LongSupplier clock) {
    this.connect = connect;
    timeoutNanos = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    this.clock = clock;
  }

  /** The ends of those of {@code partitions} that are there and have a leader. */
  Map<TopicPartition, Long> ends(Set<TopicPartition> partitions) {
    return interruptible(() -> answered(partitions));
  }

  /** Fails if some of {@code partitions} are not {@code known}. */
  static void checkAll(Set<TopicPartition> partitions, Map<TopicPartition, Long> known) {
    List<String> unknown =
        partitions.stream()
            .filter(tp -> !known.containsKey(tp))
            .map(TopicPartition::toString)
            .sorted()
            .toList();
    if (!unknown.isEmpty()) {
      throw new UnknownEnds(
          "no answer where partitions end, which have no leader or are deleted: " + unknown);
    }
  }

  /** The first offsets of {@code partitions}. */
  Map<TopicPartition, Long> beginnings(Set<TopicPartition> partitions) {
    return interruptible(
        () -> client().beginningOffsets(partitions, Duration.ofNanos(timeoutNanos)));
  }

  private Map<TopicPartition, Long> answered(Set<TopicPartition> partitions) {
    long begun = clock.getAsLong();
    if (!leftOut.isEmpty() && begun - leftOutAt > LEFT_OUT_NANOS) {
      leaveOut(partitions);
    }
    for (Duration patience = SOON; true; patience = patience.multipliedBy(2)) {
      Set<TopicPartition> asked = new HashSet<>(partitions);
      asked.removeAll(leftOut);
      if (asked.isEmpty()) {
        return Map.of();
      }
      long left = begun + timeoutNanos - clock.getAsLong();
      if (left <= 0) {
        throw new UnknownEnds(
            String.format(
                "no answer where %d partitions end, such as %s",
                asked.size(), asked.iterator().next()));
      }
      try {
        return client().endOffsets(asked, Duration.ofNanos(Math.min(left, patience.toNanos())));
      } catch (TimeoutException e) {
        leaveOut(partitions);
      }
    }
  }

  private void leaveOut(Set<TopicPartition> partitions) {
    leftOut.clear();
    try {
      leftOut.addAll(without(client(), partitions, SOON, info -> info.leader() != null));
    } catch (TimeoutException e) {
      // The next answer may come.
    }
    if (!leftOut.isEmpty() && !leftOut.equals(said)) {
      LOG.warn("read no further until they have a leader, or deleted: {}", leftOut);
    }
    said = Set.copyOf(leftOut);
    leftOutAt = clock.getAsLong();
  }

  /** Those of {@code partitions} that the cluster does not have any more. */
  static Set<TopicPartition> gone(
      Consumer<?, ?> consumer, Set<TopicPartition> partitions, Duration patience) {
    return without(consumer, partitions, patience, info -> true);
  }

  private static Set<TopicPartition> without(
      Consumer<?, ?> consumer,
      Set<TopicPartition> partitions,
      Duration patience,
      Predicate<PartitionInfo> isThere) {
    Map<String, List<PartitionInfo>> topics = consumer.listTopics(patience);
    Set<TopicPartition> missing = new HashSet<>(partitions);
    for (List<PartitionInfo> infos : topics.values()) {
      for (PartitionInfo info : infos) {
        if (isThere.test(info)) {
          missing.remove(new TopicPartition(info.topic(), info.partition()));
        }
      }
    }
    return missing;
  }

  /** Spark looks for its own exception, or Java's, when a query is stopped. */
  private static Map<TopicPartition, Long> interruptible(
      Supplier<Map<TopicPartition, Long>> question) {
    try {
      return new HashMap<>(question.get());
    } catch (InterruptException e) {
      throw new UncheckedIOException(new InterruptedIOException(e.toString()));
    }
  }

  private Consumer<byte[], byte[]> client() {
    if (consumer == null) {
      consumer = connect.get();
    }
    return consumer;
  }

  @Override
  public void close() {
    if (consumer != null) {
      ClientSettings.close(consumer);
    }
  }
}
