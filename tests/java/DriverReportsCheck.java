package replication.plugin;

import java.util.HashSet;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import replication.producer.PartitionCopy;

/** What the driver takes from reports, and which executors it thinks may still write. */
final class DriverReportsCheck {
  private static final String GENERATION = "A->B#3";
  private static final String RUNS = "orders\t0\t0,9,0,9;\t";
  private static final int LEASE_MS = 300;

  private final DriverReports driver = new DriverReports();
  private final String token;

  private DriverReportsCheck(int leaseMs) {
    token = DriverReports.start("500", Integer.toString(leaseMs)).get(ExecutorReports.TOKEN);
  }

  public static void main(String[] arguments) throws InterruptedException {
    checkTokens();
    checkGenerations();
    checkNumbers();
    checkThrottled();
    checkSilence();
    checkOpen();
    checkHeld();
    checkAbandoned();
    checkLimits();
    checkPaused();
    checkLeftOut();
    checkLost();
    checkUnheard();
    System.out.println("ok");
  }

  private static void checkTokens() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    String stale = now.token;
    DriverReportsCheck next = new DriverReportsCheck(60_000);
    check(!stale.equals(next.token), "each application has a token of its own");
    for (String line :
        new String[] {"1\t0", "1\t0\t", "1\t0\t" + stale, "1\t0\t" + next.token + "x"}) {
      try {
        next.driver.receive("executor\t" + line + "\nbusy\tA->B#1\t0\t0\n");
        check(false, "answered " + line);
      } catch (SecurityException refused) {
        check(DriverReports.mayWrite("A->B", DriverReports.now()).isEmpty(), "a stranger is known");
      }
    }
    next.report(1, 0);
    check(!DriverReports.mayWrite("A->B", DriverReports.now()).isEmpty(), "an executor is known");
  }

  private static void checkGenerations() throws InterruptedException {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    check(DriverReports.tagOf(GENERATION).equals(GENERATION), "one that is not open has no token");
    DriverReports.open(GENERATION);
    DriverReports.open("A->B#4");
    String tag = DriverReports.tagOf(GENERATION);
    String other = DriverReports.tagOf("A->B#4").split("\t")[0];
    check(!tag.startsWith(other), "each generation has a token of its own");
    check(PartitionCopy.flowOf(tag).equals("A->B"), "the flow of a tag");
    now.report(
        1,
        0,
        "runs\t" + GENERATION + '\t' + RUNS,
        "runs\t" + other + '\t' + GENERATION + '\t' + RUNS);
    check(DriverReports.take(GENERATION, 1).isEmpty(), "runs without the token of the generation");
    now.report(1, 1, "rejected\t" + tag + "\torders\t0\ttoo large", "runs\t" + tag + '\t' + RUNS);
    check(
        DriverReports.take(GENERATION, 2).equals("rejected\torders\t0\ttoo large\nruns\t" + RUNS),
        "what was reported, oldest first");
    check(DriverReports.take(GENERATION, 3).isEmpty(), "once");
    PartitionCopy copy = new PartitionCopy(new TopicPartition("orders", 0), new HashSet<>());
    copy.begin(1, tag, "0");
    copy.sent(5, 100, 900);
    check(copy.unacknowledged("A->B") == 1, "of its flow");
    copy.acknowledged(9, 70, 1_000);
    StringBuilder lines = new StringBuilder();
    copy.report(lines);
    now.report(1, 2, lines.toString());
    check(
        DriverReports.take(GENERATION, 4)
            .equals("runs\torders\t0\t5,6,9,1;\t5,\ncopied\torders\t0\t70,1000,900"),
        "what a partition reports");
    check(
        DriverReports.figures("A->B").startsWith("executors\t1\t")
            && DriverReports.figures("A->B").contains("\ntransfer\t"),
        "and how long its records take");
    long since = DriverReports.now();
    check(!DriverReports.haveReported(since), "no report since then");
    now.report(1, 3);
    check(!DriverReports.haveReported(since), "the report may have been made before");
    now.report(1, 4);
    check(DriverReports.haveReported(since), "a report that was made after it");
    DriverReports.close(GENERATION);
    DriverReports.open(GENERATION);
    now.report(1, 3, "runs\t" + tag + '\t' + RUNS);
    check(DriverReports.take(GENERATION, 5).isEmpty(), "runs of a generation that is closed");
  }

  /**
   * A report that comes again counts once, and one that comes late does not replace a newer one.
   */
  private static void checkNumbers() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    DriverReports.open(GENERATION);
    String tag = DriverReports.tagOf(GENERATION);
    now.report(1, 1, "busy\tA->B#1\t5\t1", "runs\t" + tag + '\t' + RUNS);
    now.report(1, 1, "busy\tA->B#1\t5\t1", "runs\t" + tag + '\t' + RUNS);
    now.report(1, 0, "busy\tA->B#1\t0\t0");
    check(DriverReports.take(GENERATION, 6).equals("runs\t" + RUNS), "a report that comes again");
    check(now.mayWrite(0).contains("has 5 records in flight and runs 1 tasks"), "a late report");
    new DriverReportsCheck(60_000);
    check(DriverReports.tagOf(GENERATION).equals(GENERATION), "another application's generation");
  }

  /** A client waits for a quota as long as the newest reports say so. */
  private static void checkThrottled() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    now.report(1, 1, "throttled\t250\treads", "throttled\t30\twrites");
    now.report(2, 1, "throttled\t400\treads");
    check(
        throttled().equals(List.of("throttled\t400\treads", "throttled\t30\twrites")),
        "the longest wait of a client");
    now.report(2, 2);
    check(
        throttled().equals(List.of("throttled\t250\treads", "throttled\t30\twrites")),
        "an executor's wait is over");
    now.report(1, 2);
    check(throttled().isEmpty(), "nobody waits any more");
  }

  private static List<String> throttled() {
    return DriverReports.figures("A->B")
        .lines()
        .filter(line -> line.startsWith("throttled"))
        .toList();
  }

  /**
   * Nothing may be written once each executor has reported twice since, and is idle for the flow.
   */
  private static void checkSilence() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    now.report(1, 0);
    now.report(2, 0);
    long since = DriverReports.now();
    check(
        now.mayWrite(since)
            .equals("executor 1 has not reported yet, executor 2 has not reported yet"),
        "two");
    check(
        DriverReports.HURRY.equals(now.report(1, 1)),
        "while one waits, the next report comes at once");
    check(
        now.mayWrite(since).startsWith("executor 1 has not"),
        "one report may have been made before");
    now.report(1, 2);
    check(now.mayWrite(since).equals("executor 2 has not reported yet"), "the other one");
    now.report(2, 1);
    now.report(2, 2, "busy\tA->B#1\t0\t1", "busy\tC->B#1\t7\t7");
    check(
        now.mayWrite(since).equals("executor 2 has 0 records in flight and runs 1 tasks"),
        "a task");
    now.report(2, 3, "busy\tA->B#1\t1\t0");
    check(
        now.mayWrite(since).equals("executor 2 has 1 records in flight and runs 0 tasks"),
        "a record");
    now.report(2, 4, "busy\tA->B#1\t0\t0", "busy\tC->B#1\t7\t7");
    check(now.mayWrite(since).isEmpty(), "another flow's records");
    now.report(2, 5, "busy\tA->B#1\t3\t0");
    check(!now.mayWrite(since).isEmpty(), "records again");
    now.report(2, 6, "busy\tC->B#1\t7\t7");
    check(now.mayWrite(since).isEmpty(), "a flow that the newest report does not name");
    check(!DriverReports.mayWrite("C->B", since).isEmpty(), "are those of that flow");
  }

  /** What is open goes on beside those that somebody waits for, and each counts by itself. */
  private static void checkOpen() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    DriverReports.open("A->B#2");
    now.report(1, 0);
    long since = DriverReports.now();
    now.report(1, 1);
    now.report(1, 2, "busy\tA->B#2\t5\t1", "busy\tA->B#1\t3\t0", "held\tA->B#2\tt\t0");
    check(now.mayWrite(since).endsWith("has 3 records in flight and runs 0 tasks"), "the stopped");
    check(DriverReports.held("A->B", since).isEmpty(), "nobody has said where those are");
    check(DriverReports.figures("A->B").contains("\t8\t1\t1\n"), "a flow's figures");
    now.report(1, 3, "busy\tA->B#2\t5\t1");
    check(now.mayWrite(since).isEmpty(), "the open one may write");
    DriverReports.close("A->B#2");
    check(!now.mayWrite(since).isEmpty(), "it is stopped as well");
  }

  /** Where the only records in flight are, once each executor has said it and runs no task. */
  private static void checkHeld() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    now.report(1, 0);
    now.report(2, 0);
    long since = DriverReports.now();
    check(DriverReports.held("A->B", since).isEmpty(), "nobody has reported yet");
    now.report(1, 1, "busy\tA->B#1\t5\t0", "held\tA->B#1\tt\t0");
    now.report(1, 2, "busy\tA->B#1\t5\t0", "held\tA->B#1\tt\t0", "held\tA->B#1\tt\t1");
    check(DriverReports.held("A->B", since).isEmpty(), "the other one has not reported yet");
    now.report(2, 1);
    now.report(2, 2, "busy\tA->B#1\t1\t0");
    check(DriverReports.held("A->B", since).isEmpty(), "the other one does not say where");
    now.report(2, 3, "busy\tA->B#1\t1\t1", "held\tA->B#1\tt\t2");
    check(DriverReports.held("A->B", since).isEmpty(), "the other one runs a task");
    now.report(2, 4, "busy\tA->B#1\t1\t0", "busy\tC->B#1\t7\t0", "held\tA->B#1\tt\t2");
    check(DriverReports.held("A->B", since).equals("t\t0\nt\t1\nt\t2"), "all partitions");
    check(DriverReports.held("C->B", since).isEmpty(), "another flow");
    now.report(1, 3);
    check(DriverReports.held("A->B", since).equals("t\t2"), "the newest reports");
    DriverReports.lost("1");
    check(DriverReports.held("A->B", since).isEmpty(), "a lost one may write anywhere");
  }

  /** Each executor is told to give up what a flow has in flight, until nothing of it is. */
  private static void checkAbandoned() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    now.report(1, 0, "busy\tA->B#1\t5\t0");
    long since = DriverReports.now();
    DriverReports.abandon("A->B");
    check(
        now.report(1, 1, "busy\tA->B#1\t5\t0").toString().endsWith("\nabandon\tA->B"), "the order");
    now.report(1, 2, "busy\tA->B#1\t2\t0");
    check(!now.mayWrite(since).isEmpty(), "two records are left");
    check(now.report(1, 3).toString().endsWith("\nabandon\tA->B"), "the order stays");
    check(now.mayWrite(since).isEmpty(), "none is left");
    check(DriverReports.HURRY.equals(now.report(1, 4)), "the order is over");
  }

  /**
   * Executors hear their share with each answer, and that of a lost one when it must have ended.
   */
  private static void checkLimits() throws InterruptedException {
    DriverReportsCheck now = new DriverReportsCheck(LEASE_MS);
    DriverReports.limit("A->B", "1000\t-1\t*");
    check(now.report(1, 0).toString().endsWith("\nlimits\tA->B\t1\t1000.0,-1.0,*"), "all of it");
    check(now.report(2, 0).toString().endsWith("\t0.0,-1.0,*"), "nothing is free yet");
    String busy = "limited\tA->B\t1\t%s,-1.0,400,4,450,500;";
    check(now.report(1, 1, busy.formatted("1000.0")).toString().endsWith("\t500.0,-1.0"), "a half");
    check(now.report(1, 2, busy.formatted("500.0")).toString().endsWith("\t500.0,-1.0"), "kept");
    check(now.report(2, 1, busy.formatted("0.0")).toString().endsWith("\t500.0,-1.0"), "the other");
    check(DriverReports.limits("A->B").endsWith("\t2\n"), "two have records that wait");
    DriverReports.lost("2");
    check(now.report(1, 3, busy.formatted("500.0")).toString().endsWith("\t500.0,-1.0"), "lost");
    Thread.sleep(LEASE_MS + 1_100);
    check(now.report(1, 4, busy.formatted("500.0")).toString().endsWith("\t1000.0,-1.0"), "ended");
    DriverReports.limit("A->B", "");
    check(now.report(1, 5, busy.formatted("1000.0")).toString().endsWith("\tA->B\t0\t"), "over");
    check(now.report(1, 6).toString().equals(""), "known to be over");
  }

  /** Executors are told what no task reads for now, with each answer, until that is taken back. */
  private static void checkPaused() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    Pauses.pause("A->B", "t\t2\n");
    check(now.report(1, 0).toString().endsWith("\npaused\tA->B\tt\t2"), "the pause");
    check(now.report(1, 1).toString().endsWith("\npaused\tA->B\tt\t2"), "the pause stays");
    Pauses.pause("A->B", "");
    check(!now.report(1, 2).toString().contains("paused"), "the pause is over");
  }

  /** What a batch leaves out waits on, until it is answered or its generation is over. */
  private static void checkLeftOut() {
    DriverReportsCheck now = new DriverReportsCheck(60_000);
    DriverReports.open(GENERATION);
    String left = "A.orders\t3\t5,42,orders,value,7";
    now.report(1, 0, "left\tanother\t" + GENERATION + '\t' + left);
    check(WantedSchemas.of("A->B").isEmpty(), "left out without the token of the generation");
    now.report(1, 1, "left\t" + DriverReports.tagOf(GENERATION) + '\t' + left);
    check(DriverReports.take(GENERATION, 7).equals("left\t" + left), "what is said of it");
    now.report(1, 2);
    check(WantedSchemas.of("A->B").equals("A.orders\t3\t42\tvalue\t7\talone"), "it waits on");
    check(WantedSchemas.of("A->C").isEmpty(), "another flow's");
    WantedSchemas.tell("A->B", "A.orders", "value", "7=9");
    check(WantedSchemas.of("A->B").isEmpty(), "it is answered");
    now.report(1, 3, "left\t" + DriverReports.tagOf(GENERATION) + '\t' + left.replace('7', '8'));
    check(!WantedSchemas.of("A->B").isEmpty(), "another one waits");
    DriverReports.close(GENERATION);
    check(WantedSchemas.of("A->B").isEmpty(), "the generation is over");
  }

  /** A lost executor may write until its lease is over, whatever it has said. */
  private static void checkLost() throws InterruptedException {
    DriverReportsCheck now = new DriverReportsCheck(LEASE_MS);
    long heard = System.nanoTime();
    now.report(1, 0);
    long since = DriverReports.now();
    now.report(1, 1);
    now.report(1, 2);
    DriverReports.lost("1");
    DriverReports.lost("never reported");
    check(now.mayWrite(since).startsWith("executor 1 is lost and may live for another "), "lost");
    check(
        awaitSilence(now, since) - heard >= (LEASE_MS + 1_000) * 1_000_000L,
        "the lease, and a second");
  }

  /**
   * One that has been silent for its lease has ended by itself; the driver's own threads have not.
   */
  private static void checkUnheard() throws InterruptedException {
    DriverReportsCheck now = new DriverReportsCheck(LEASE_MS);
    long heard = System.nanoTime();
    now.report(1, 0, "busy\tA->B#1\t5\t1");
    check(
        awaitSilence(now, 0) - heard >= (LEASE_MS + 1_000) * 1_000_000L, "the lease, and a second");
    DriverReportsCheck local = new DriverReportsCheck(-1_001);
    local.report(ExecutorReports.LOCAL, 0, "busy\tA->B#1\t5\t1");
    local.report(1, 0, "busy\tA->B#1\t5\t1");
    check(
        local.mayWrite(0).equals("executor driver has 5 records in flight and runs 1 tasks"),
        "local mode");
  }

  private static long awaitSilence(DriverReportsCheck now, long since) throws InterruptedException {
    while (!now.mayWrite(since).isEmpty()) {
      Thread.sleep(5);
    }
    return System.nanoTime();
  }

  private String mayWrite(long since) {
    return DriverReports.mayWrite(
        "A->B", since == 0 ? Long.MIN_VALUE / 2 + System.nanoTime() : since);
  }

  private Object report(Object executor, int number, String... lines) {
    return driver.receive(
        "executor\t" + executor + '\t' + number + '\t' + token + '\n' + String.join("\n", lines));
  }

  private static void check(boolean isTrue, String what) {
    if (!isTrue) {
      throw new AssertionError(what);
    }
  }
}
