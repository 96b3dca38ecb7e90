package replication.producer;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What an executor reports of a partition over failures, tasks and generations. */
final class PartitionCopyTest {
  private static final int SIZE = 100;
  private static final int UNKNOWN = -1; // what a broker answers that has forgotten the offset

  private final Set<PartitionCopy> busy = new HashSet<>();
  private PartitionCopy copy;

  @BeforeEach
  void makeCopy() {
    copy = new PartitionCopy(new TopicPartition("t", 0), busy);
    copy.limitBatches(16_384, Integer.MAX_VALUE);
    assertTrue(copy.begin(1, "A->B#1", "0"));
    haveOneAcknowledged();
  }

  /** So that several may be in flight. It is not reported. */
  private void haveOneAcknowledged() {
    assertDoesNotThrow(() -> send(0));
    copy.acknowledged(UNKNOWN, 0, -1);
    copy.leaveIfDone();
  }

  @Test
  void anOffsetThatTheBrokerHasForgottenIsReportedAsNone() throws InterruptedException {
    send(7, 8);
    copy.acknowledged(UNKNOWN, 0, -1);
    copy.acknowledged(41, 0, -1);

    assertEquals(List.of("8,9,41,1"), runs());
  }

  @Test
  void afterALostRecordNothingIsReportedUntilAnotherTaskBegins() throws InterruptedException {
    send(1, 2, 3);
    copy.acknowledged(10, 0, -1);
    copy.failed(new KafkaException("lost"));
    copy.acknowledged(11, 0, -1);
    assertEquals(List.of("1,2,10,1"), runs());

    assertTrue(copy.begin(2, "A->B#1", "0"));
    send(4);
    copy.acknowledged(12, 0, -1);
    assertEquals(List.of("4,5,12,1"), runs());
  }

  @Test
  void whatAnEarlierGenerationHadNotReportedIsForgotten() throws InterruptedException {
    send(1);
    copy.acknowledged(10, 0, -1);
    assertTrue(copy.begin(1, "A->B#2", "0"), "attempts count anew in another Spark");
    haveOneAcknowledged();
    send(5);
    copy.acknowledged(20, 0, -1);

    assertEquals(List.of("5,6,20,1"), runs());
  }

  @Test
  void bytesAndTheNewestTimestampAreOfTheRecordsSinceTheLastReport() throws InterruptedException {
    send(1, 2, 3, 4);
    copy.acknowledged(10, 70, 2_000);
    copy.acknowledged(11, 30, 1_000);
    copy.acknowledged(UNKNOWN, 500, 9_000);
    assertTrue(report().contains("copied\tA->B#1\tt\t0\t100,2000,-1\n"), "the first report");

    copy.acknowledged(13, 5, -1);
    assertTrue(report().contains("copied\tA->B#1\tt\t0\t5,-1,-1\n"), "the second report");
    assertEquals("", report(), "without a record");
  }

  @Test
  void anotherTaskBeginsOnlyWhenNothingIsInFlight() throws InterruptedException {
    send(1);
    assertFalse(copy.begin(2, "A->B#2", "0"));
    copy.failed(new KafkaException("lost"));
    assertTrue(copy.begin(2, "A->B#2", "0"));
  }

  @Test
  void aRejectionIsReportedOnceAndNotInTheNextGeneration() throws InterruptedException {
    send(1);
    copy.failed(new RecordTooLargeException("too large"));
    assertEquals(
        "rejected\tA->B#1\tt\t0\t1\tRecordTooLargeException: too large\n",
        report(),
        "the first report");
    assertEquals("", report(), "the second report");

    copy.begin(2, "A->B#1", "0");
    send(1);
    copy.failed(new RecordTooLargeException("too large"));
    copy.begin(3, "A->B#2", "0");
    assertEquals("", report(), "the next generation");
  }

  @Test
  void aRejectedRecordIsKnownByItsOffsetAmongThoseOfItsBatch() throws InterruptedException {
    for (boolean isReportedBetween : new boolean[] {false, true}) {
      copy.begin(isReportedBetween ? 3 : 2, "A->B#" + (isReportedBetween ? 3 : 2), "0");
      haveOneAcknowledged();
      send(3, 4, 6, 7, 8);
      copy.acknowledged(10, 0, -1);
      copy.failed(new KafkaException("of its batch"));
      String first = isReportedBetween ? report() : "";
      copy.failed(new InvalidRecordException("own"));
      copy.failed(new KafkaException("of its batch"));
      String all = first + report();
      copy.failed(new InvalidRecordException("another one"));
      all += report();

      assertEquals(1, all.split("InvalidRecordException", -1).length - 1, all);
      assertTrue(all.contains("\tt\t0\t6\tInvalidRecordException: own\n"), all);
    }
  }

  @Test
  void aSenderThatWaitsForRoomGoesOnWhenThereIsSome() throws InterruptedException {
    copy.limitBatches(16_384, 1_000);
    copy.sent(1, 700, -1);
    Thread sender = waitingSender();
    copy.acknowledged(10, 0, -1);
    sender.join(60_000);

    assertFalse(sender.isAlive(), "the sender waits still");
    copy.acknowledged(11, 0, -1);
    assertEquals(List.of("1,3,10,2"), runs());
  }

  /** One that waits before it sends offset 2. */
  private Thread waitingSender() {
    Thread sender = new Thread(() -> sendLarge(2));
    sender.start();
    while (sender.getState() != Thread.State.WAITING) {
      assertTrue(sender.isAlive(), "it has sent its record");
      Thread.onSpinWait();
    }
    return sender;
  }

  @Test
  void inEachGenerationTheSecondRecordWaitsUntilTheFirstIsAcknowledged() throws Exception {
    for (int generation = 2; generation < 4; generation++) {
      assertTrue(copy.begin(generation, "A->B#" + generation, "0"));
      assertFalse(copy.awaitsFirst(), "nothing is in flight");
      send(1);
      assertTrue(copy.awaitsFirst());
      Thread sender = waitingSender();
      copy.acknowledged(10, 0, -1);
      sender.join(60_000);

      assertFalse(sender.isAlive(), "the sender waits still");
      assertFalse(copy.awaitsFirst(), "the second one may have others beside it");
      send(3);
      copy.acknowledged(11, 0, -1);
      copy.acknowledged(12, 0, -1);
      assertEquals(List.of("1,4,10,3"), runs());
    }
  }

  @Test
  void aFirstRecordThatFailsOrNeverLeavesHoldsUpNoOther() throws Exception {
    assertTrue(copy.begin(2, "A->B#2", "0"));
    send(1);
    Thread sender = waitingSender();
    copy.failed(new KafkaException("lost"));
    sender.join(60_000);
    assertFalse(sender.isAlive(), "the sender waits still");

    copy.notSent();
    assertFalse(copy.awaitsFirst());
    send(3);
    assertTrue(copy.awaitsFirst(), "nothing was acknowledged yet");
  }

  @Test
  void reportsLookAtAPartitionWhileSomethingIsInFlightOrNotReported() throws InterruptedException {
    assertTrue(busy.isEmpty());
    send(5);
    copy.leaveIfDone();
    assertEquals(Set.of(copy), busy, "in flight");
    copy.acknowledged(9, 0, -1);
    copy.leaveIfDone();
    assertEquals(Set.of(copy), busy, "not reported");
    report();
    copy.leaveIfDone();
    assertTrue(busy.isEmpty());
    copy.failed(new RecordTooLargeException("of no record that is known"));
    assertEquals(Set.of(copy), busy, "a rejection");
    report();
    copy.leaveIfDone();
    assertTrue(busy.isEmpty());
  }

  @Test
  void aBorderThatMirrorMakersSyncsNeedIsNotJoined() throws InterruptedException {
    PartitionCopy spaced = new PartitionCopy(new TopicPartition("t", 0), new HashSet<>());
    spaced.limitBatches(16_384, Integer.MAX_VALUE);
    spaced.begin(1, "A->B#1", "100");
    MirrorSyncs expected = new MirrorSyncs();
    for (int record = 0; record < 40_000; record++) {
      spaced.sent(2 * record, SIZE, -1);
      spaced.acknowledged(record, 0, -1);
      expected.add(2 * record, record, 1, 100);
    }
    StringBuilder lines = new StringBuilder();
    spaced.report(lines);
    List<long[]> reported = new ArrayList<>();
    for (String run : lines.toString().split("\t", -1)[4].split(";", 0)) {
      String[] numbers = run.split(",", -1);
      reported.add(new long[] {Long.parseLong(numbers[0]), Long.parseLong(numbers[1])});
    }

    assertTrue(reported.size() < 8_192, "neighbours are joined");
    for (long sync : expected.kept()) {
      assertTrue(
          reported.stream().anyMatch(run -> run[0] <= sync && sync + 1 == run[1]),
          "a run ends behind offset " + sync);
    }
  }

  @Test
  void whatAnotherAttemptCopiesAgainIsInNoRunOfTheOneBefore() throws InterruptedException {
    PartitionCopy spaced = new PartitionCopy(new TopicPartition("t", 0), new HashSet<>());
    spaced.limitBatches(16_384, Integer.MAX_VALUE);
    List<Long> sources = new ArrayList<>(); // by target offset
    for (int attempt = 1; attempt < 3; attempt++) {
      assertTrue(spaced.begin(attempt, "A->B#1", "100"));
      for (long source = attempt == 1 ? 0 : 9_000; source < 10_000L * attempt; source += 2) {
        spaced.sent(source, SIZE, -1);
        spaced.acknowledged(sources.size(), 0, -1);
        sources.add(source);
      }
    }
    StringBuilder lines = new StringBuilder();
    spaced.report(lines);

    for (String run : runsOf(lines.toString())) {
      String[] numbers = run.split(",", -1);
      int first = Integer.parseInt(numbers[2]);
      for (long source : sources.subList(first, first + Integer.parseInt(numbers[3]))) {
        boolean isWithin =
            Long.parseLong(numbers[0]) <= source && source < Long.parseLong(numbers[1]);
        assertTrue(isWithin, source + " in " + run);
      }
    }
  }

  /** Sends, answers, losses, tasks and generations in any order, held against a list of pairs. */
  @Test
  void whateverHappensOnlyWhatIsKnownIsReportedAndAllOfIt() throws InterruptedException {
    for (int seed = 0; seed < 3_000; seed++) {
      new History(seed).run();
    }
  }

  private static final class History {
    private final Random random;
    private final Set<PartitionCopy> busy = new HashSet<>();
    private final PartitionCopy copy = new PartitionCopy(new TopicPartition("t", 0), busy);
    private final Deque<Long> inFlight = new ArrayDeque<>();
    private final List<String> due = new ArrayList<>();
    private final String name;
    private boolean isBroken;
    private boolean isKnown;
    private long task;
    private long generation = 1;
    private long source;
    private long target;

    History(int seed) {
      random = new Random(seed);
      name = "seed " + seed;
      copy.limitBatches(16_384, Integer.MAX_VALUE);
    }

    void run() throws InterruptedException {
      begin();
      for (int step = 0; step < 200; step++) {
        switch (random.nextInt(12)) {
          case 0 -> begin();
          case 1 -> fail();
          case 2 -> takeBack();
          case 3 -> acknowledge(UNKNOWN);
          case 4 -> compare();
          case 5, 6, 7, 8 -> send();
          default -> acknowledge(target++);
        }
        assertEquals(inFlight.size(), copy.unacknowledged("A->B"), name);
        assertEquals(!inFlight.isEmpty() && !isKnown, copy.awaitsFirst(), name);
      }
      compare();
    }

    private void begin() {
      boolean isNewer = random.nextBoolean();
      boolean mayBegin = inFlight.isEmpty();
      String ofGeneration = "A->B#" + (generation + (isNewer ? 1 : 0));
      assertEquals(mayBegin, copy.begin(++task, ofGeneration, "0"), name);
      if (mayBegin) {
        isBroken = false;
        if (isNewer || task == 1) {
          isKnown = false;
          generation += isNewer ? 1 : 0;
          due.clear();
        }
      }
    }

    private void send() throws InterruptedException {
      if (!inFlight.isEmpty() && !isKnown) {
        return; // it would wait
      }
      source += 1 + random.nextInt(3);
      inFlight.add(source);
      copy.sent(source, SIZE, -1);
    }

    private void takeBack() {
      if (!inFlight.isEmpty()) {
        inFlight.removeLast();
        copy.notSent();
      }
    }

    private void fail() {
      if (!inFlight.isEmpty()) {
        inFlight.remove();
        isBroken = true;
        copy.failed(new KafkaException("lost"));
      }
    }

    private void acknowledge(long at) {
      if (!inFlight.isEmpty()) {
        long offset = inFlight.remove();
        isKnown = true;
        copy.acknowledged(at, 0, -1);
        if (!isBroken && at != UNKNOWN) {
          due.add(offset + "->" + at);
        }
      }
    }

    private void compare() {
      StringBuilder lines = new StringBuilder();
      busy.forEach(each -> each.report(lines)); // as an executor does
      assertEquals(due, pairsOf(lines.toString()), name);
      copy.leaveIfDone();
      assertEquals(inFlight.isEmpty(), busy.isEmpty(), name);
      due.clear();
    }
  }

  private void send(long... offsets) throws InterruptedException {
    for (long offset : offsets) {
      copy.sent(offset, SIZE, -1);
    }
  }

  private void sendLarge(long offset) {
    try {
      copy.sent(offset, 700, -1);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private String report() {
    StringBuilder lines = new StringBuilder();
    copy.report(lines);
    return lines.toString();
  }

  /** The runs of the next report: {@code srcFrom,srcUntil,tgtFrom,count}. */
  private List<String> runs() {
    return runsOf(report());
  }

  private static List<String> runsOf(String report) {
    List<String> runs = new ArrayList<>();
    for (String line : report.split("\n", -1)) {
      if (line.startsWith("runs\t")) {
        runs.addAll(List.of(line.split("\t", -1)[4].split(";", 0)));
      }
    }
    return runs;
  }

  private static List<String> pairsOf(String report) {
    List<String> pairs = new ArrayList<>();
    for (String run : runsOf(report)) {
      String[] numbers = run.split(",", -1);
      long from = Long.parseLong(numbers[0]);
      long downstream = Long.parseLong(numbers[2]);
      assertEquals(Long.parseLong(numbers[3]), Long.parseLong(numbers[1]) - from, "a dense run");
      for (long offset = from; offset < Long.parseLong(numbers[1]); offset++) {
        pairs.add(offset + "->" + downstream++);
      }
    }
    return pairs;
  }
}
