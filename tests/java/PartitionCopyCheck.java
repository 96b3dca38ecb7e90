package replication.producer;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.kafka.common.TopicPartition;

/** Random sends, acknowledgements and reports, held against a list of all pairs. */
final class PartitionCopyCheck {
  private static final String GENERATION = "A->B#3";
  private static final int SIZE = 100;

  private final Random random;
  private final PartitionCopy copy = new PartitionCopy(new TopicPartition("t", 0), new HashSet<>());
  private final Deque<Long> inFlight = new ArrayDeque<>();
  private final List<long[]> pairs = new ArrayList<>();
  private final StringBuilder reports = new StringBuilder();
  private long source;
  private long target;

  private PartitionCopyCheck(long seed) {
    random = new Random(seed);
  }

  public static void main(String[] arguments) throws InterruptedException {
    checkSyncs(1_000, 1000, 990, 960, 900, 840, 720, 480, 0);
    checkSyncs(10_000, 10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0);
    checkOthersBetween();
    checkRoom();
    checkOver();
    for (int seed = 0; seed < 2_000; seed++) {
      for (int spacing : new int[] {0, 3, 100}) {
        new PartitionCopyCheck(seed).run(spacing);
      }
    }
    System.out.println("ok");
  }

  /** Every tenth offset holds a record: which of them MirrorMaker 2's store keeps. */
  private static void checkSyncs(int until, long... newestFirst) {
    MirrorSyncs alone = new MirrorSyncs();
    MirrorSyncs inReports = new MirrorSyncs();
    for (int offset = 0; offset <= until; offset += 10) {
      alone.add(offset, offset / 10, 1, 100);
      inReports.add(offset, offset / 10, 1, 100);
      inReports.add(offset, offset / 10, 1, 100); // the last run of a report comes twice
    }
    long[] expected = LongStream.of(newestFirst).sorted().toArray();
    check(Arrays.equals(expected, alone.kept()), Arrays.toString(alone.kept()));
    check(Arrays.equals(expected, inReports.kept()), Arrays.toString(inReports.kept()));
    MirrorSyncs dense = new MirrorSyncs();
    dense.add(0, 0, 150, 100);
    dense.add(0, 0, 250, 100); // the run has grown: syncs at 0, 101 and 202
    check(Arrays.equals(new long[] {0, 101, 202}, dense.kept()), Arrays.toString(dense.kept()));
  }

  /**
   * Another producer's record lies after each: no two runs can be joined, however many there are.
   */
  private static void checkOthersBetween() throws InterruptedException {
    PartitionCopy shared = new PartitionCopy(new TopicPartition("t", 0), new HashSet<>());
    shared.begin(1, GENERATION, "100");
    for (long offset = 0; offset < 50_000; offset++) {
      shared.sent(offset, SIZE, -1);
      shared.acknowledged(2 * offset, 0, -1);
    }
    StringBuilder report = new StringBuilder();
    shared.report(report);
    long runs = report.chars().filter(it -> it == ';').count();
    check(runs == 50_000, runs + " runs");
    check(report.indexOf("49999,50000,99998,1;") > 0, "the newest run");
  }

  /** Records in flight together fit into a batch of the topic, and a large one stays alone. */
  private static void checkRoom() {
    Random random = new Random(1);
    BatchRoom room = new BatchRoom();
    room.acknowledged();
    room.limit(16_384, 10_000);
    for (int step = 0, together = 0; step < 10_000; step++) {
      int size = BatchRoom.RECORD_OVERHEAD + random.nextInt(3_000);
      boolean isAlone = together == 0 || !room.takes(size);
      together = isAlone ? size : together + size;
      room.add(size, isAlone);
      check(together <= 10_000, together + " bytes in flight");
    }
    room.limit(16_384, 1_000_000);
    int tiny = BatchRoom.RECORD_OVERHEAD + 1;
    room.add(20_000, true);
    check(!room.takes(tiny) && room.takes(1_000), "a tiny record waits for a large one");
    room.add(1_000, false);
    check(room.takes(tiny), "and for no other one");
  }

  /** Dropped is what is idle, reported, without a task, and of an older generation. */
  private static void checkOver() throws InterruptedException {
    PartitionCopy copy = new PartitionCopy(new TopicPartition("t", 0), new HashSet<>());
    Map<String, Long> newest = new HashMap<>(Map.of("A->B", 4L));
    check(copy.begin(1, GENERATION, "0"), "an idle partition takes a task");
    copy.sent(7, SIZE, -1);
    check(!copy.isOver(newest, task -> false, 0), "a record is in flight");
    copy.acknowledged(7, 0, -1);
    check(!copy.isOver(newest, task -> false, 0), "its run is not reported");
    copy.report(new StringBuilder());
    check(!copy.isOver(newest, task -> task == 1, 0), "its task runs");
    check(!copy.isOver(newest, task -> false, Long.MAX_VALUE), "it may be alive");
    check(!copy.isOver(Map.of("A->B", 3L), task -> false, 0), "its generation is the newest");
    check(!copy.isDropped(), "so it stays");
    check(copy.isOver(newest, task -> false, 0) && copy.isDropped(), "it is of no more use");
    copy.noteGeneration(newest);
    check(newest.get("A->B") == 4, "the newest generation stays the newest");
  }

  private void run(int spacing) throws InterruptedException {
    int gaps = random.nextInt(100);
    check(copy.begin(1, GENERATION, Integer.toString(spacing)), "an idle partition takes a task");
    for (int step = 0; step < 500; step++) {
      switch (random.nextInt(8)) {
        case 0, 1, 2 -> send(gaps);
        case 3 -> takeBack();
        case 4 -> copy.report(reports);
        default -> acknowledge();
      }
      check(copy.unacknowledged("A->B") == inFlight.size(), "records in flight");
      check(copy.begin(2, GENERATION, "0") == inFlight.isEmpty(), "one task at a time");
      copy.begin(1, GENERATION, Integer.toString(spacing));
    }
    while (!inFlight.isEmpty()) {
      acknowledge();
    }
    copy.report(reports);
    compare(spacing);
  }

  private void send(int gaps) throws InterruptedException {
    if (!inFlight.isEmpty() && pairs.isEmpty()) {
      return; // it would wait for the first acknowledgement
    }
    source += 1 + (random.nextInt(100) < gaps ? random.nextInt(5) : 0);
    inFlight.add(source);
    copy.sent(source, SIZE, -1);
  }

  private void takeBack() {
    if (!inFlight.isEmpty()) {
      source = inFlight.removeLast() - 1;
      copy.notSent();
    }
  }

  private void acknowledge() {
    if (!inFlight.isEmpty()) {
      pairs.add(new long[] {inFlight.remove(), target});
      copy.acknowledged(target++, 0, -1);
    }
  }

  /** Every run holds the next pairs: dense ones exactly, others no more than the spacing. */
  private void compare(int spacing) {
    int at = 0;
    for (String line : reports.toString().split("\n")) {
      String[] fields = line.split("\t");
      if (!fields[0].equals("runs")) {
        continue;
      }
      int last = at + records(fields);
      for (String text : fields[4].split(";")) {
        String[] run = text.split(",");
        int count = Integer.parseInt(run[3]);
        check(Long.parseLong(run[0]) == pairs.get(at)[0], "the run starts at its first record");
        check(Long.parseLong(run[2]) == pairs.get(at)[1], "and at that record's target offset");
        at += count;
        check(Long.parseLong(run[1]) == pairs.get(at - 1)[0] + 1, "it ends after its last record");
        boolean isDense = Long.parseLong(run[1]) - Long.parseLong(run[0]) == count;
        check(isDense || count <= spacing, "a border every so many records");
        check(isDense || count <= (last - at) / 64, "and more of them among the newest");
      }
    }
    check(at == pairs.size(), "every acknowledged record is reported once");
  }

  private static int records(String[] report) {
    int sum = 0;
    for (String run : report[4].split(";")) {
      sum += Integer.parseInt(run.split(",")[3]);
    }
    return sum;
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
