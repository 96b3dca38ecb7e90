package replication.producer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which records are timed, and how a flow's durations add up. */
final class TimingsTest {
  private static final long NOW = System.currentTimeMillis() + 600_000; // is live in any case

  private Timings timings;

  @BeforeEach
  void makeTimings() {
    timings = new Timings();
    timings.beginGeneration();
  }

  @Test
  void aRecordIsInTheBucketOfItsDuration() {
    Durations durations = new Durations();
    for (long micros : new long[] {-5, 0, 1_000, 1_001, 3_600_000_000L, 3_600_000_001L}) {
      durations.add(micros);
    }

    assertEquals(
        "7200002002,3600000001,0:3,1:1,17:1,18:1",
        durations.appendTo(new StringBuilder()).toString());
  }

  @Test
  void durationsOfSeveralReportsAddUp() {
    Durations sum = new Durations();
    assertTrue(sum.isEmpty(), "in the beginning");
    sum.add("700,700,0:1");
    sum.add("9300,5000,0:1,3:2");

    assertEquals("10000,5000,0:2,3:2", sum.appendTo(new StringBuilder()).toString());
  }

  @Test
  void aRecordFromBeforeTheGenerationHasNoLatency() {
    long before = System.currentTimeMillis() - 600_000;
    timings.sent(1, before);
    timings.sent(2, NOW);
    timings.acknowledged(1);
    timings.acknowledged(2);

    assertEquals(NOW, timings.newest(), "the newest timestamp");
    assertEquals(1, count(report()[0]), "latencies");
  }

  @Test
  void aRecordWithoutTimestampIsTimedByOneClockOnly() {
    timings.sent(1, -1);
    timings.acknowledged(1);

    assertEquals(-1, timings.newest(), "the newest timestamp");
    String[] report = report();
    assertEquals(0, count(report[0]), "latencies");
    assertEquals(1, count(report[1]), "transfers");
    assertTrue(timings.isEmpty(), "after the report");
  }

  @Test
  void aReportHasAFewHundredOfManyRecords() {
    for (int i = 0, source = 0; i < 3; i++) {
      for (int record = 0; record < 100_000; record++, source++) {
        timings.sent(source, NOW);
        timings.acknowledged(source);
      }
      long timed = count(report()[1]);
      assertTrue(timed == 100_000 || (timed >= 256 && timed <= 512), "a report has " + timed);
      assertEquals(i == 0, timed == 100_000, "the first report takes all");
    }
  }

  @Test
  void moreRecordsInFlightThanAreKeptAreNotTimed() {
    for (int source = 0; source < 5_000; source++) {
      timings.sent(source, NOW);
    }
    for (int source = 0; source < 5_000; source++) {
      timings.acknowledged(source);
    }

    assertEquals(512, count(report()[1]));
  }

  /** Sends, answers and records taken back, in any order: each that is acknowledged counts once. */
  @Test
  void whateverHappensEachRecordIsTimedOnce() {
    Random random = new Random(7);
    Deque<Long> inFlight = new ArrayDeque<>();
    long source = 0;
    long expected = 0;
    for (int step = 0; step < 10_000; step++) {
      switch (random.nextInt(5)) {
        case 0, 1 -> {
          source += 1 + random.nextInt(3);
          inFlight.add(source);
          timings.sent(source, NOW);
        }
        case 2 -> {
          if (!inFlight.isEmpty()) {
            timings.notSent(inFlight.removeLast());
          }
        }
        case 3 -> {
          if (random.nextInt(50) == 0) { // another task begins
            timings.forget();
            inFlight.clear();
          }
        }
        default -> {
          if (!inFlight.isEmpty()) {
            timings.acknowledged(inFlight.remove());
            expected++;
          }
        }
      }
    }

    assertEquals(expected, count(report()[1]));
  }

  private String[] report() {
    StringBuilder lines = new StringBuilder();
    timings.report(lines);
    return lines.toString().split("\t", -1);
  }

  private static long count(String durations) {
    long sum = 0;
    for (String bucket : durations.split(",", -1)) {
      sum += bucket.contains(":") ? Long.parseLong(bucket.split(":", -1)[1]) : 0;
    }
    return sum;
  }
}
