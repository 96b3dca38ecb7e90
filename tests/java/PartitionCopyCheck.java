package replication;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;

/** Random sends, acknowledgements and reports, held against a list of all pairs. */
final class PartitionCopyCheck {
  private static final String GENERATION = "A->B#3";

  private final Random random;
  private final PartitionCopy copy = new PartitionCopy(new TopicPartition("t", 0));
  private final Deque<Long> inFlight = new ArrayDeque<>();
  private final List<long[]> pairs = new ArrayList<>();
  private final StringBuilder reports = new StringBuilder();
  private long source;
  private long target;

  private PartitionCopyCheck(long seed) {
    random = new Random(seed);
  }

  public static void main(String[] arguments) {
    for (int seed = 0; seed < 2_000; seed++) {
      for (int spacing : new int[] {0, 3, 100}) {
        new PartitionCopyCheck(seed).run(spacing);
      }
    }
    System.out.println("ok");
  }

  private void run(int spacing) {
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

  private void send(int gaps) {
    source += 1 + (random.nextInt(100) < gaps ? random.nextInt(5) : 0);
    inFlight.add(source);
    copy.sent(source);
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
      copy.acknowledged(target++);
    }
  }

  /** Every run holds the next pairs: dense ones exactly, others no more than the spacing. */
  private void compare(int spacing) {
    int at = 0;
    for (String line : reports.toString().split("\n")) {
      String[] fields = line.split("\t");
      for (String text : fields.length > 4 ? fields[4].split(";") : new String[0]) {
        String[] run = text.split(",");
        int count = Integer.parseInt(run[3]);
        check(Long.parseLong(run[0]) == pairs.get(at)[0], "the run starts at its first record");
        check(Long.parseLong(run[2]) == pairs.get(at)[1], "and at that record's target offset");
        at += count;
        check(Long.parseLong(run[1]) == pairs.get(at - 1)[0] + 1, "it ends after its last record");
        boolean isDense = Long.parseLong(run[1]) - Long.parseLong(run[0]) == count;
        check(isDense || count <= spacing, "a border every so many records");
      }
    }
    check(at == pairs.size(), "every acknowledged record is reported once");
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
