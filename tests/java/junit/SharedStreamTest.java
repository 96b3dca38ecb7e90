package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Which offsets a batch has, and what each of its tasks reads. */
final class SharedStreamTest {
  private static final String GENERATION = "A->B#7";
  private static final String STARTS = "{\"t\":{\"0\":0,\"1\":0,\"2\":0}}";
  private static final TopicPartition[] T = {
    new TopicPartition("t", 0), new TopicPartition("t", 1), new TopicPartition("t", 2)
  };

  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final Set<TopicPartition> leaderless = new java.util.HashSet<>();
  private final SharedStream stream = stream(Map.of("tasks", "2"));

  /** The source, which says where logs end. */
  private final class Cluster extends MockConsumer<byte[], byte[]> {
    private Cluster() {
      super(OffsetResetStrategy.NONE);
    }

    @Override
    public Map<TopicPartition, Long> endOffsets(
        Collection<TopicPartition> partitions, Duration patience) {
      if (partitions.stream().anyMatch(leaderless::contains)) {
        throw new TimeoutException("no answer");
      }
      Map<TopicPartition, Long> found = new HashMap<>();
      partitions.forEach(tp -> found.put(tp, ends.getOrDefault(tp, 0L)));
      return found;
    }

    @Override
    public Map<String, List<PartitionInfo>> listTopics(Duration patience) {
      List<PartitionInfo> parts = new java.util.ArrayList<>();
      for (TopicPartition tp : T) {
        Node leader = leaderless.contains(tp) ? null : new Node(1, "localhost", 1);
        parts.add(new PartitionInfo("t", tp.partition(), leader, null, null));
      }
      return Map.of("t", parts);
    }
  }

  private SharedStream stream(Map<String, String> more) {
    Map<String, String> options = new HashMap<>(more);
    options.put(SharedSource.STARTS, STARTS);
    options.put("generation", GENERATION);
    return new SharedStream(
        new CaseInsensitiveStringMap(options),
        settings -> new LogEnds(Cluster::new, 60_000, System::nanoTime));
  }

  @AfterEach
  void forget() {
    LeftOut.clear();
    stream.stop();
  }

  private static Offset at(long... offsets) {
    Map<TopicPartition, Long> all = new HashMap<>();
    for (int number = 0; number < offsets.length; number++) {
      all.put(T[number], offsets[number]);
    }
    return SourceOffsets.of(all);
  }

  private void end(long... offsets) {
    for (int number = 0; number < offsets.length; number++) {
      ends.put(T[number], offsets[number]);
    }
  }

  private static String latest(SharedStream of, Offset from) {
    return of.latestOffset(from, ReadLimit.allAvailable()).json();
  }

  /** What each task reads, as {@code partition:from-until}; none is read by two. */
  private static Map<String, String> read(InputPartition[] shares) {
    Map<String, String> read = new TreeMap<>();
    for (InputPartition share : shares) {
      for (TaskShare.Range range : ((TaskShare) share).ranges()) {
        String until = range.until() == TaskShare.NO_END ? "" : "" + range.until();
        String before = read.put("" + range.partition().partition(), range.from() + "-" + until);
        assertEquals(null, before, "read twice");
      }
    }
    return read;
  }

  @Test
  void aBatchReadsUpToWhereTheLogsEndNow() {
    end(5, 0, 7);
    assertEquals("{\"t\":{\"0\":5,\"1\":0,\"2\":7}}", latest(stream, at(0, 0, 0)));
    end(9, 1, 7);
    assertEquals("{\"t\":{\"0\":9,\"1\":1,\"2\":7}}", latest(stream, at(5, 0, 7)));
    assertEquals(
        Map.of("0", "5-9", "1", "0-1"), read(stream.planInputPartitions(at(5, 0, 7), at(9, 1, 7))));
  }

  @Test
  void aDrainEndsWhereTheLogsEndedWhenItBegan() {
    stream.prepareForTriggerAvailableNow();
    end(5, 5, 5);
    String first = latest(stream, at(0, 0, 0));
    end(9, 9, 9);

    assertEquals(first, latest(stream, at(2, 2, 2)));
  }

  @Test
  void aDrainFailsWhereAPartitionDoesNotAnswerAndAStreamLetsItStand() {
    end(5, 5, 5);
    leaderless.add(T[1]);
    assertEquals("{\"t\":{\"0\":5,\"1\":3,\"2\":5}}", latest(stream, at(0, 3, 0)));

    stream.prepareForTriggerAvailableNow();
    SharedStream drain = stream(Map.of());
    drain.prepareForTriggerAvailableNow();
    assertThrows(TimeoutException.class, () -> latest(drain, at(0, 3, 0)));
    drain.stop();
  }

  @Test
  void aLimitGivesEachPartitionItsShareOfTheBacklog() {
    end(1_000, 3, 0);
    Offset batch = stream.latestOffset(at(0, 0, 0), ReadLimit.maxRows(101));

    assertEquals("{\"t\":{\"0\":101,\"1\":1,\"2\":0}}", batch.json());
    assertEquals(
        "{\"t\":{\"0\":1000,\"1\":3,\"2\":0}}",
        stream.latestOffset(at(950, 1, 0), ReadLimit.maxRows(101)).json(),
        "the rest is smaller than the limit");
    assertEquals(
        "{\"t\":{\"0\":1000,\"1\":3,\"2\":0}}", stream.reportLatestOffset().json(), "the backlog");
  }

  @Test
  void whatOperatorsPauseStandsAndTheOthersGoOn() {
    end(5, 5, 5);
    SharedStream paused = stream(Map.of("flow", "A->B", "tasks", "3"));
    PausedPartitions.set(Map.of("A->B", Set.of(T[1])));
    try {
      assertEquals("{\"t\":{\"0\":5,\"1\":2,\"2\":5}}", latest(paused, at(0, 2, 0)));
    } finally {
      PausedPartitions.set(Map.of());
      paused.stop();
    }
    assertEquals("{\"t\":{\"0\":5,\"1\":5,\"2\":5}}", latest(paused, at(0, 2, 0)));
  }

  @Test
  void whatABatchHasLeftOutGoesBackIsNotReadAndThenGoesOnFromThere() {
    end(9, 9, 9);
    LeftOut.add(GENERATION, T[1], new LeftOut.Stand(4, "key", "record", "17"));
    Offset from = at(9, 9, 9); // Spark takes the batch before for whole

    assertEquals("{\"t\":{\"0\":9,\"1\":4,\"2\":9}}", latest(stream, from));
    assertEquals(Map.of(), read(stream.planInputPartitions(from, at(9, 4, 9))));
    assertEquals(
        "{\"t\":{\"0\":9,\"1\":4,\"2\":9}}", latest(stream, at(9, 4, 9)), "it waits still");

    LeftOut.answer("key", Set.of("17"));
    assertEquals("{\"t\":{\"0\":9,\"1\":9,\"2\":9}}", latest(stream, at(9, 4, 9)));
    assertEquals(Map.of("1", "4-9"), read(stream.planInputPartitions(at(9, 4, 9), at(9, 9, 9))));
  }

  @Test
  void aRealTimeBatchHasNoEndAndReadsAllPartitions() {
    assertEquals(
        Map.of("0", "3-", "1", "4-", "2", "5-"), read(stream.planInputPartitions(at(3, 4, 5))));
  }

  @Test
  void aRealTimeBatchEndsWhereItsTasksHaveEnded() {
    Offset end =
        stream.mergeOffsets(
            new PartitionOffset[] {
              new TaskOffsets(offsets(T[0], 0), offsets(T[0], 6)),
              new TaskOffsets(offsets(T[2], 1), offsets(T[2], 7)),
              new TaskOffsets(offsets(T[1], 2), offsets(T[1], 8))
            });

    assertEquals("{\"t\":{\"0\":6,\"1\":8,\"2\":7}}", end.json());
    assertEquals(Map.of(), stream.metrics(Optional.empty()), "it reads alone");
  }

  /** The leaders that its tasks are told of, by partition. */
  private static Map<Integer, Integer> epochs(InputPartition[] shares) {
    Map<Integer, Integer> told = new TreeMap<>();
    for (InputPartition share : shares) {
      for (TaskShare.Range range : ((TaskShare) share).ranges()) {
        if (range.epoch() != null) {
          told.put(range.partition().partition(), range.epoch());
        }
      }
    }
    return told;
  }

  @Test
  void tasksAreToldTheLeadersOfTheStartAndThoseOfTheBatchBefore() {
    SharedStream known = stream(Map.of(SharedSource.EPOCHS, "{\"t\":{\"0\":4,\"1\":5}}"));
    assertEquals(Map.of(0, 4, 1, 5), epochs(known.planInputPartitions(known.initialOffset())));
    assertEquals(
        Map.of(1, 5),
        epochs(known.planInputPartitions(at(3, 0, 0), at(9, 9, 9))),
        "of what has gone on since, nobody knows it");

    SourceOffsets read = SourceOffsets.of(offsets(T[0], 6).map(), Map.of(T[0], 8));
    Offset end =
        known.mergeOffsets(
            new PartitionOffset[] {
              new TaskOffsets(offsets(T[0], 0), read),
              new TaskOffsets(offsets(T[1], 0), offsets(T[1], 0)),
              new TaskOffsets(offsets(T[2], 0), offsets(T[2], 7))
            });
    assertEquals(Map.of(0, 8, 1, 5), epochs(known.planInputPartitions(end)));
    known.stop();
  }

  @Test
  void aQueryThatTakesTurnsSaysWhereItsBatchHasBegun() {
    String relay = "relay of this test";
    SharedStream first =
        stream(Map.of("tasks", "2", SharedSource.RELAY, relay, SharedSource.RELAY_BEGINS, "true"));
    assertEquals(Map.of(), first.metrics(Optional.empty()), "no batch has ended");
    first.mergeOffsets(new PartitionOffset[] {new TaskOffsets(offsets(T[0], 4), offsets(T[0], 6))});

    assertEquals(Map.of(SharedSource.STARTS, "{\"t\":{\"0\":4}}"), first.metrics(Optional.empty()));
    first.stop();
    assertThrows(
        IllegalStateException.class, () -> stream(Map.of(SharedSource.RELAY, relay)), "it is over");
  }

  @Test
  void onlyAStreamWithALimitHasOne() {
    assertEquals(ReadLimit.allAvailable(), stream.getDefaultReadLimit());
    SharedStream limited = stream(Map.of("maxOffsetsPerTrigger", "70"));
    assertEquals(ReadLimit.maxRows(70), limited.getDefaultReadLimit());
    limited.stop();
    assertThrows(UnsupportedOperationException.class, stream::latestOffset);
    assertFalse(stream.initialOffset().json().isEmpty());
    assertEquals(STARTS, stream.deserializeOffset(STARTS).json());
  }

  private static SourceOffsets offsets(TopicPartition tp, long offset) {
    return SourceOffsets.of(Map.of(tp, offset));
  }
}
