package replication.plugin;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.TaskContext;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.util.TaskCompletionListener;
import replication.producer.PartitionCopy;
import replication.producer.PreserveTimestamps;
import replication.producer.SchemaIds;
import replication.producer.SecondAttempt;
import replication.producer.Throttle;
import replication.source.SharedConsumers;

/**
 * The executor's half: reports twice a second what the target has acknowledged, and ends a process
 * that the driver no longer hears.
 *
 * <p>Each report is a request, so that both sides know how old their contact is. An executor whose
 * driver has not answered for the length of the lease halts: no shutdown hook runs, since Spark's
 * hook flushes the producers and may wait for a broker forever. The driver counts the same time
 * from the last report it got, which is never earlier, and lets nobody else write before.
 *
 * <p>A report is lines of tab-separated fields: {@code executor id number token}, then {@code busy
 * generation records tasks} with the records in flight and the tasks running, then {@code held
 * generation topic partition} for what is in flight while the driver waits, {@code limited flow
 * version limit;...} as {@link Throttle} says what has passed, {@code throttled milliseconds
 * client.id} for clients that a quota holds back, {@code schema} and {@code left} as {@link
 * SchemaIds#report} for records that wait for an id of a schema, then {@code runs token generation
 * topic partition srcFrom,srcUntil,tgtFrom,count;... sync,...}, {@code copied token generation
 * topic partition bytes,newestTimestamp,newestOfSource}, {@code timed token generation topic
 * partition latency transfer} as {@link Durations}, and {@code rejected token generation topic
 * partition offset text}. The driver takes nothing without the tokens that it gave out.
 */
public final class ExecutorReports implements ExecutorPlugin {
  static final String INTERVAL = "interval.ms";
  static final String LEASE = "lease.ms";
  static final String TOKEN = "token";

  static final String ABANDON = "abandon"; // in an answer, with a flow

  static final String LOCAL = "driver"; // the executor's id in local mode

  private static final int REPORTS_BETWEEN_CLEANUPS = 100;

  /**
   * Generations run side by side: one in which nothing was sent for less than this may be alive.
   */
  private static final long IDLE_NANOS = TimeUnit.HOURS.toNanos(1);

  private static final Set<TaskContext> TASKS = ConcurrentHashMap.newKeySet();

  private final QuotaWaits quotaWaits = new QuotaWaits();
  private PluginContext context;
  private String token;
  private long intervalMs;
  private long leaseNanos;
  private volatile long heardAt;
  private volatile boolean isShutDown;
  private volatile boolean hasRunTasks;
  private boolean isAwaited; // the driver waits until nothing is in flight
  private long number;
  private String unsent;
  private long complainedAt;

  @Override
  public void init(PluginContext pluginContext, Map<String, String> settings) {
    context = pluginContext;
    token = settings.get(TOKEN);
    intervalMs = Long.parseLong(settings.get(INTERVAL));
    leaseNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(settings.get(LEASE)));
    heardAt = System.nanoTime();
    report(); // before the first task, so that the driver knows of this executor
    daemon("replication-reports", this::reports);
    if (!LOCAL.equals(context.executorID())) {
      limitLog();
      daemon("replication-lease", this::watchLease);
    }
  }

  private static void limitLog() {
    try {
      LogLimit.install();
    } catch (LinkageError e) { // a platform logs by something else than log4j
      System.err.println("replication: repeated lines of this log are not limited: " + e);
    }
  }

  private static void daemon(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void onTaskStart() {
    TaskContext task = TaskContext.get();
    if (task != null && task.getLocalProperty(PreserveTimestamps.GENERATION) != null) {
      hasRunTasks = true;
      TASKS.add(task);
      if (PreserveTimestamps.isSecondAttempt(task)) {
        task.addTaskCompletionListener((TaskCompletionListener) ExecutorReports::fail);
      }
    }
  }

  /**
   * A second attempt sends nothing, so it may end well: at the end of a Real-Time batch no time is
   * left to read a record. The batch would then hold nothing of what the first attempt has written.
   */
  private static void fail(TaskContext task) {
    throw new SecondAttempt("cannot finish its batch");
  }

  @Override
  public void shutdown() {
    isShutDown = true;
    if (hasRunTasks) { // else there may be no client, and Spark's classes would make pools for them
      SharedConsumers.closeAll();
      KeptProducers.close();
    }
  }

  /** Nothing ends this thread but the process: without reports a flow would wait for ever. */
  private void reports() {
    while (!isShutDown) {
      long pauseMs = intervalMs;
      try {
        pauseMs = report();
      } catch (Throwable e) { // such as a lack of memory; the next report is another chance
        complain(e);
      }
      sleep(TimeUnit.MILLISECONDS.toNanos(pauseMs));
    }
  }

  private void complain(Throwable reason) {
    try {
      long now = System.nanoTime();
      if (complainedAt == 0 || now - complainedAt > TimeUnit.MINUTES.toNanos(1)) {
        complainedAt = now;
        System.err.println(
            "replication: a report to the driver failed, the next one follows: " + reason);
      }
    } catch (Throwable e) {
      // no memory for a line either
    }
  }

  /** As Thread.sleep, but an interrupt, which nobody means to send, is forgotten. */
  private static void sleep(long nanos) {
    LockSupport.parkNanos(nanos);
    Thread.interrupted();
  }

  /** Sends one report, or again the last one that got no answer; says how long to wait. */
  private long report() {
    long at = System.nanoTime();
    if (unsent == null) {
      unsent = next();
    }
    try {
      String[] orders = ((String) context.ask(unsent)).split("\n", -1);
      unsent = null;
      heardAt = at;
      for (int i = 1; i < orders.length; i++) {
        obey(orders[i]);
      }
      SchemaIds.reported();
      if (!LOCAL.equals(context.executorID())) { // else the driver has said it in this process
        Pauses.follow(orders);
      }
      isAwaited = orders[0].equals(DriverReports.HURRY);
      boolean isUrgent = isAwaited || SchemaIds.isAwaited();
      return isUrgent ? Math.min(50, intervalMs) : intervalMs;
    } catch (Exception e) { // the driver is busy, or ends; the lease says when that is too long
      return intervalMs;
    }
  }

  private static void obey(String order) {
    String[] words = order.split("\t", 2);
    if (words[0].equals(ABANDON)) {
      abandon(words[1]);
    } else if (words[0].equals(Limits.ANSWER)) {
      Throttle.obey(words[1]);
    } else if (words[0].equals(SchemaIds.ANSWER)) {
      SchemaIds.obey(words[1]);
    }
  }

  /** Gives up what {@code flow} has in flight, unless the next generation has begun already. */
  private static void abandon(String flow) {
    if (tasks().keySet().stream().map(PartitionCopy::flowOf).noneMatch(flow::equals)) {
      KeptProducers.abandon(flow);
    }
  }

  private String next() {
    StringBuilder lines = new StringBuilder();
    lines.append("executor\t").append(context.executorID()).append('\t').append(number++);
    lines.append('\t').append(token).append('\n');
    // Counted before the runs are taken: a generation with nothing in flight has all runs reported.
    Map<String, Long> tasks = tasks();
    Map<String, Long> records = new TreeMap<>();
    tasks.keySet().forEach(generation -> records.put(generation, 0L));
    PreserveTimestamps.forEachBusy(copy -> copy.countInto(records));
    records.forEach(
        (generation, count) ->
            lines
                .append("busy\t")
                .append(generation)
                .append('\t')
                .append(count)
                .append('\t')
                .append(tasks.getOrDefault(generation, 0L))
                .append('\n'));
    quotaWaits.appendTo(lines);
    if (isAwaited) {
      PreserveTimestamps.forEachBusy(copy -> copy.reportHeld(lines, tasks.keySet()));
    }
    Throttle.reportAll(lines);
    SchemaIds.report(lines);
    PreserveTimestamps.forEachBusy(copy -> copy.report(lines));
    PreserveTimestamps.forEachBusy(PartitionCopy::leaveIfDone);
    if (number % REPORTS_BETWEEN_CLEANUPS == 0) {
      PreserveTimestamps.dropIdle(ExecutorReports::isRunning, IDLE_NANOS);
      if (hasRunTasks) {
        SharedConsumers.closeIdle(); // those of generations that went on elsewhere, or ended
      }
    }
    return lines.toString();
  }

  private static boolean isRunning(long attempt) {
    return TASKS.stream().anyMatch(task -> task.taskAttemptId() == attempt && !task.isCompleted());
  }

  private static Map<String, Long> tasks() {
    TASKS.removeIf(TaskContext::isCompleted);
    Map<String, Long> tasks = new TreeMap<>();
    for (TaskContext task : TASKS) {
      String generation = task.getLocalProperty(PreserveTimestamps.GENERATION);
      tasks.merge(PartitionCopy.nameOf(generation), 1L, Long::sum);
    }
    return tasks;
  }

  private void watchLease() {
    String end = "the driver has not answered in time";
    try {
      long leftNanos;
      while ((leftNanos = heardAt + leaseNanos - System.nanoTime()) > 0) {
        sleep(Math.min(leftNanos, TimeUnit.MILLISECONDS.toNanos(200)));
      }
    } catch (Throwable e) { // nobody would watch any more
      end = e.toString();
    } finally {
      PreserveTimestamps.cutOff();
      System.err.println("replication: " + end + ", this executor ends");
      Runtime.getRuntime().halt(1);
    }
  }
}
