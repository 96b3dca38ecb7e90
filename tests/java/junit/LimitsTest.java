package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Which share of a limit each executor has, whatever is lost on the way. */
final class LimitsTest {
  private static final String FLOW = "A->B";
  private static final double LIMIT = 1_000;
  private static final double ROUNDING = 1e-6;
  private static final double HALF_SECOND = 5e8;

  private final Limits limits = new Limits();
  private final List<Executor> executors = new ArrayList<>();
  private final Set<String> lost = new TreeSet<>();

  /** An executor as the driver sees it: it wants to send so much a second. */
  private final class Executor {
    private final String id;
    private double wants;
    private String version = "0";
    private double share = -1;

    Executor(String id, double wants) {
      this.id = id;
      this.wants = wants;
      executors.add(this);
    }

    /** What it sends a second. */
    double sends() {
      return share < 0 ? wants : Math.min(share, wants);
    }

    void report() {
      limits.begin(id);
      if (!version.equals("0")) {
        double waited = wants <= share ? 0 : HALF_SECOND * (1 - sends() / wants);
        String limit = share + ",-1.0," + sends() / 2 + ",0," + waited + "," + HALF_SECOND;
        limits.heard(id, FLOW, version, limit + ";");
      }
    }

    String answer() {
      StringJoiner answer = new StringJoiner("\n");
      limits.answer(answer, id, living(), lost);
      return answer.toString();
    }

    void obey(String answer) {
      if (!answer.isEmpty()) {
        String[] fields = answer.split("\t", -1);
        assertTrue(
            fields[2].equals(version) || fields[2].equals("0") || fields[3].endsWith(",*"),
            "a new limit has its topics: " + answer);
        version = fields[2];
        share = version.equals("0") ? -1 : Double.parseDouble(fields[3].split(",")[0]);
      }
    }

    void talk() {
      report();
      obey(answer());
    }
  }

  private Set<String> living() {
    Set<String> living = new TreeSet<>();
    executors.forEach(executor -> living.add(executor.id));
    living.removeAll(lost);
    return living;
  }

  private void talk(int rounds) {
    for (int i = 0; i < rounds; i++) {
      executors.forEach(Executor::talk);
    }
  }

  private double inForce() {
    return executors.stream().mapToDouble(executor -> executor.share).sum();
  }

  private double sent() {
    return executors.stream().mapToDouble(Executor::sends).sum();
  }

  private void limit(double bytes) {
    limits.set(FLOW, bytes + "\t-1\t*");
  }

  @Test
  void sharesAreFairAndNeverMoreThanTheLimit() {
    Random random = new Random(11);
    for (int i = 0; i < 20_000; i++) {
      double limit = random.nextInt(4) == 0 ? random.nextDouble() : random.nextInt(1_000_000);
      double[] demands = new double[1 + random.nextInt(6)];
      Arrays.setAll(demands, j -> random.nextInt(3) == 0 ? 0 : random.nextDouble() * 2 * limit);
      if (random.nextBoolean()) {
        demands[0] = Double.POSITIVE_INFINITY;
      }
      double[] shares = Shares.of(limit, demands);
      double sum = Arrays.stream(shares).sum();

      assertEquals(limit, sum, ROUNDING * limit, "all is shared out, and no more");
      for (int j = 0; j < demands.length; j++) {
        double fair = Math.min(demands[j], limit / demands.length);
        assertTrue(shares[j] >= fair * (1 - ROUNDING), "less than an equal part, and wants more");
      }
    }
  }

  @Test
  void whoHasNothingToSendLeavesItsShareToTheOthers() {
    double[] shares = Shares.of(1_000, 0, Double.POSITIVE_INFINITY, 100);

    assertArrayEquals(new double[] {5.2, 864.6, 130.2}, shares, 0.1);
  }

  @Test
  void anExecutorThatPausesForAMomentHasMostOfItsShareAfterwards() {
    Executor one = new Executor("1", 5_000);
    Executor other = new Executor("2", 5_000);
    limit(LIMIT);
    talk(4);
    one.wants = 0;
    talk(1);
    one.wants = 5_000;
    talk(1);

    assertEquals(LIMIT / 2, one.share, ROUNDING);
    assertEquals(LIMIT / 2, other.share, ROUNDING);
  }

  @Test
  void oneExecutorHasAllOfIt() {
    Executor only = new Executor("driver", 5_000);
    limit(LIMIT);
    talk(1);

    assertEquals(LIMIT, only.share);
  }

  @Test
  void theLimitIsUsedUpWhoeverHasTheRecords() {
    Executor busy = new Executor("1", 5_000);
    Executor idle = new Executor("2", 0);
    limit(LIMIT);
    talk(9); // in four seconds and a half
    assertTrue(busy.sends() > 0.95 * LIMIT, "one is busy: " + busy.share);
    idle.wants = 5_000;
    talk(2);
    assertEquals(LIMIT / 2, busy.share, ROUNDING, "both are, a second later");
    busy.wants = 100;
    talk(9);

    assertTrue(sent() > 0.95 * LIMIT, "of both: " + sent());
    assertEquals(100, busy.sends(), "what needs less is not held up");
  }

  @Test
  void theSharesInForceNeverComeToMoreThanTheLimit() {
    Random random = new Random(5);
    for (int run = 0; run < 200; run++) {
      executors.clear();
      lost.clear();
      limits.clear();
      new Executor("0", 400);
      limit(LIMIT);
      executors.get(0).talk();
      for (int step = 1; step < 60; step++) {
        Executor one = executors.get(random.nextInt(executors.size()));
        switch (random.nextInt(8)) {
          case 0 -> {
            Executor added = new Executor(Integer.toString(step), random.nextInt(2_000));
            added.share = 0; // it is asked before its first task
            added.obey(added.answer());
          }
          case 1 -> one.wants = random.nextInt(2_000);
          case 2 -> lost.add(one.id);
          case 3 -> {
            if (executors.size() > 1 && lost.remove(one.id)) { // its lease is over
              executors.remove(one);
            }
          }
          case 4 -> {
            one.report();
            if (!lost.contains(one.id)) {
              one.answer(); // gets lost, and the same report is answered again
              one.obey(one.answer());
            }
          }
          default -> {
            if (!lost.contains(one.id)) {
              one.talk();
            }
          }
        }
        assertTrue(inForce() <= LIMIT * (1 + ROUNDING), inForce() + " in step " + step);
      }
    }
  }

  @Test
  void aChangedLimitIsInForceAfterOneReportOfEach() {
    Executor one = new Executor("1", 5_000);
    Executor other = new Executor("2", 5_000);
    limit(LIMIT);
    talk(4);
    limit(LIMIT / 10);
    talk(1);
    assertTrue(inForce() <= LIMIT / 10 * (1 + ROUNDING), "lowered: " + inForce());
    limit(LIMIT * 10);
    talk(2);
    assertEquals(LIMIT * 10, inForce(), 1, "raised");
    limits.set(FLOW, "");
    talk(1);

    assertEquals(List.of("0", "0"), List.of(one.version, other.version), "nothing is left of it");
    one.report();
    assertEquals("", one.answer());
  }

  @Test
  void theShareOfALostExecutorIsFreeWhenItMustHaveEnded() {
    Executor one = new Executor("1", 5_000);
    Executor killed = new Executor("2", 5_000);
    limit(LIMIT);
    talk(4);
    lost.add(killed.id);
    for (int i = 0; i < 4; i++) {
      one.talk();
    }
    assertEquals(LIMIT / 2, one.share, ROUNDING, "while it may live");
    executors.remove(killed);
    lost.clear();
    one.talk();

    assertEquals(LIMIT, one.share, ROUNDING);
  }

  @Test
  void theFiguresSayWhatIsUsedAndWhetherSomethingWaits() {
    new Executor("1", 5_000);
    new Executor("2", 0);
    limit(LIMIT);
    talk(40);
    String[] figures = limits.figures(FLOW).trim().split("\t");

    assertEquals(LIMIT, Double.parseDouble(figures[0]), LIMIT / 20);
    assertEquals("1", figures[2], "executors with records that wait");
    assertEquals("", limits.figures("B->A"));
  }

  @Test
  void equalLimitsAreNoChange() {
    Executor one = new Executor("1", 5_000);
    limit(LIMIT);
    talk(2);
    String version = one.version;
    limit(LIMIT);
    talk(1);

    assertEquals(version, one.version);
  }
}
