package replication.producer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** How long records wait for a limit, by a clock of the test's own. */
final class RateLimitTest {
  private static final double NONE = RateLimit.NONE;
  private static final double SECOND = 1e9;
  private static final long MINUTE_MS = 60_000;

  private final Running clock = new Running();
  private final Throttle throttle = new Throttle(clock);

  /** Time passes only while a record waits, up to {@code late} nanoseconds longer than asked. */
  private static final class Running implements RateLimit.Clock {
    private final Random random = new Random(7);
    private long now = 1;
    private int late;

    @Override
    public long nanos() {
      return now;
    }

    @Override
    public void await(Object monitor, long nanos) throws InterruptedException {
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
      now += nanos + 1 + (late > 0 ? random.nextInt(late) : 0);
    }
  }

  /** When each of that many records of a size was let through, in seconds from now. */
  private List<Double> times(String topic, int count, int size) throws InterruptedException {
    List<Double> times = new ArrayList<>();
    long begin = clock.now;
    for (int i = 0; i < count; i++) {
      throttle.take(topic, size);
      times.add((clock.now - begin) / SECOND);
    }
    return times;
  }

  private static double last(List<Double> times) {
    return times.get(times.size() - 1);
  }

  @Test
  void withoutALimitNothingWaits() throws InterruptedException {
    assertFalse(throttle.isLimited());
    assertEquals(0, last(times("t", 1_000, 1_000_000)));
  }

  @Test
  void theMeanIsTheLimitAndNoSecondHasAFifthMore() throws InterruptedException {
    clock.late = 20_000_000; // as on a busy machine
    throttle.set("1", "100000.0,-1.0,*");
    List<Double> times = times("t", 4_000, 500);

    assertEquals(20, last(times), 0.2, "seconds for two million bytes");
    int[] bySecond = new int[22];
    times.forEach(time -> bySecond[time.intValue()] += 500);
    for (int bytes : bySecond) {
      assertTrue(bytes <= 120_000, bytes + " bytes in a second");
    }
  }

  @Test
  void recordsAreLimitedAsBytesAre() throws InterruptedException {
    throttle.set("1", "-1.0,200.0,*");

    assertEquals(5, last(times("t", 1_001, 1_000_000)), 0.01);
  }

  @Test
  void theLowerOfTwoRatesDecides() throws InterruptedException {
    throttle.set("1", "1000.0,200.0,*");

    assertEquals(10, last(times("t", 101, 100)), 0.01);
  }

  @Test
  void aRecordLargerThanASecondPassesAndIsPaidForAfterwards() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,*");

    assertEquals(List.of(0.0, 5.0), times("t", 2, 5_000).stream().map(Math::floor).toList());
  }

  @Test
  void topicsWithALimitOfTheirOwnDoNotSlowTheOthers() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,A.slow:slow;100000.0,-1.0,*");

    assertEquals(0.9, last(times("A.slow", 10, 100)), 0.01);
    assertEquals(1, last(times("A.other", 100, 1_000)), 0.2);
  }

  @Test
  void topicsOfOneLimitShareIt() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,a:a,b:b");
    long begin = clock.now;
    for (int i = 0; i < 20; i++) {
      throttle.take(i % 2 == 0 ? "a" : "b", 100);
    }

    assertEquals(1.9, (clock.now - begin) / SECOND, 0.01);
  }

  @Test
  void whatWasNotUsedIsNotCaughtUp() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,*");
    throttle.take("t", 100);
    clock.now += (long) (3600 * SECOND);

    assertEquals(9.9, last(times("t", 101, 100)), 0.1, "seconds for another 10 000 bytes");
  }

  @Test
  void aRaisedLimitIsInForceForTheDebtOfTheOldOne() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,*");
    throttle.take("t", 1_000_000); // would take 1000 seconds
    throttle.set("2", "1000000.0,-1.0,*");

    assertEquals(1, last(times("t", 1, 1)), 0.01);
  }

  @Test
  void withoutItsLimitATopicIsFree() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,a:a;1000.0,-1.0,b:b");
    times("a", 1, 1_000_000);
    times("b", 1, 1_000_000);
    throttle.set("2", "1000.0,-1.0,b:b");
    assertEquals(0, last(times("a", 10, 1_000_000)));
    throttle.set("0", "");

    assertFalse(throttle.isLimited());
    assertEquals(0, last(times("b", 10, 1_000_000)));
  }

  @Test
  void aNewShareOfAKnownLimitNeedsNoTopics() throws InterruptedException {
    throttle.set("1", "1000.0,-1.0,*");
    throttle.set("1", "500.0,-1.0");

    assertEquals(2, last(times("t", 11, 100)), 0.01);
  }

  @Test
  void aReportHasTheSharesAndWhatHasPassedAndWaited() throws InterruptedException {
    StringBuilder none = new StringBuilder();
    throttle.report("A->B", none);
    throttle.set("7", "1000.0,-1.0,*");
    times("t", 3, 500);
    StringBuilder lines = new StringBuilder();
    throttle.report("A->B", lines);

    assertEquals("", none.toString(), "without a limit");
    String[] found = lines.toString().trim().split("[\t,;]");
    assertEquals(
        List.of("limited", "A->B", "7", "1000.0", "-1.0", "1500", "3"),
        List.of(found).subList(0, 7));
    assertEquals(1, Double.parseDouble(found[7]) / SECOND, 0.01, "seconds that some record waited");
    assertEquals(1, Double.parseDouble(found[8]) / SECOND, 0.01, "seconds since the last report");
  }

  /** By the real clock: a thread that waits for a limit for eleven days, and may be let through. */
  private static final class Waiting {
    private final Throttle throttle = new Throttle(RateLimit.REAL);
    private final ExecutorService threads = Executors.newSingleThreadExecutor();
    private final Future<?> record;

    private Waiting() throws InterruptedException {
      throttle.set("1", "1000.0,-1.0,*");
      CountDownLatch began = new CountDownLatch(1);
      record =
          threads.submit(
              () -> {
                throttle.take("t", 1_000_000_000);
                began.countDown();
                throttle.take("t", 1);
                return null;
              });
      began.await();
    }

    private void end() throws InterruptedException {
      threads.shutdown();
      assertTrue(threads.awaitTermination(MINUTE_MS, TimeUnit.MILLISECONDS), "it waits no longer");
    }
  }

  @Test
  void whatWaitsGoesOnAtOnceWhenTheLimitEnds() throws Exception {
    Waiting waiting = new Waiting();
    waiting.throttle.set("0", "");

    waiting.end();
    waiting.record.get();
  }

  @Test
  void whatWaitsIsInterruptedByAStop() throws Exception {
    Waiting waiting = new Waiting();
    waiting.threads.shutdownNow();

    waiting.end();
    Exception found = assertThrows(Exception.class, waiting.record::get);
    assertEquals(InterruptedException.class, found.getCause().getClass());
  }

  @Test
  void aThreadThatWaitsHoldsUpNeitherReportsNorNewShares() throws Exception {
    Waiting waiting = new Waiting();
    StringBuilder lines = new StringBuilder();
    waiting.throttle.report("A->B", lines);
    waiting.throttle.set("1", NONE + "," + NONE);

    assertTrue(
        lines.toString().startsWith("limited\tA->B\t1\t1000.0,-1.0,1000000000,1,"), "" + lines);
    waiting.end();
  }
}
