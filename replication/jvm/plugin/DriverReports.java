package replication.plugin;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import replication.producer.PartitionCopy;
import replication.producer.PreserveTimestamps;
import replication.producer.SchemaIds;

/**
 * The driver's half: keeps the executors' reports until Python takes them, and knows which
 * executors may still write.
 */
public final class DriverReports implements DriverPlugin {
  private static final String INTERVAL_KEY = "spark.replication.report.interval.ms";
  private static final String LEASE_KEY = "spark.replication.executor.lease.ms";
  private static final String INTERVAL_MS = "500";
  private static final String LEASE_MS = "10000";
  static final String HURRY = "hurry"; // in an answer: the next report should come at once

  private static final long MARGIN_NANOS = TimeUnit.SECONDS.toNanos(1);

  // Static, since Python reaches classes and not Spark's plugin objects. Guarded by the class.
  private static final Map<String, Executor> EXECUTORS = new TreeMap<>();
  private static final Map<String, Runs> RUNS = new HashMap<>();
  private static final Set<String> ABANDONED = new TreeSet<>(); // flows
  private static final Map<String, FlowFigures> FIGURES = new HashMap<>(); // by flow
  private static final Limits LIMITS = new Limits();
  private static boolean isLoaded;
  private static String token = newToken();
  private static long leaseNanos;
  private static long hurryUntil;

  private static final class Executor {
    private long number = -1;
    private long heardAt = System.nanoTime();
    private long heardBefore = heardAt;
    private boolean isLost;
    private final Map<String, long[]> busy = new HashMap<>(); // generation: records, tasks
    private final Map<String, Set<String>> held = new HashMap<>(); // generation: partitions
    private final Map<String, Long> throttled = new TreeMap<>(); // client.id: milliseconds

    /** The records in flight and the tasks of the generations that fit. */
    private long[] busy(Predicate<String> fits) {
      long[] sum = {0, 0};
      busy.forEach(
          (generation, own) -> {
            if (fits.test(generation)) {
              sum[0] += own[0];
              sum[1] += own[1];
            }
          });
      return sum;
    }
  }

  private static final class Runs {
    private final String token = newToken();
    private final KeptLines lines = new KeptLines();
  }

  /** Whether Spark has started the plugin in this process. */
  public static synchronized boolean isLoaded() {
    return isLoaded;
  }

  /** A time to give to {@link #mayWrite}. */
  public static long now() {
    return System.nanoTime();
  }

  private static String newToken() {
    return UUID.randomUUID().toString(); // 122 bits of a SecureRandom
  }

  /** Keeps the runs of {@code generation} from now on, if they come with the token of its tasks. */
  public static synchronized void open(String generation) {
    RUNS.putIfAbsent(generation, new Runs());
  }

  /** Tags what this thread starts with {@code generation}, and with its token if it is open. */
  public static void tag(SparkContext spark, String generation) {
    spark.setLocalProperty(PreserveTimestamps.GENERATION, tagOf(generation));
  }

  static synchronized String tagOf(String generation) {
    Runs runs = RUNS.get(generation);
    return runs == null ? generation : runs.token + '\t' + generation;
  }

  /**
   * Lets go of a generation, which has been stopped. What is reported of its records afterwards is
   * dropped, and {@link #mayWrite} waits for it.
   */
  public static synchronized void close(String generation) {
    RUNS.remove(generation);
    WantedSchemas.close(generation);
  }

  /**
   * Whether nothing is new: {@code query} runs, its newest progress event is {@code newest}, its
   * batch and its time, and nothing was reported of {@code generation}. One call from Python, not
   * five.
   */
  public static boolean isQuiet(StreamingQuery query, String newest, String generation) {
    if (!query.isActive()) {
      return false;
    }
    StreamingQueryProgress event = query.lastProgress();
    String found = event == null ? "" : event.batchId() + " " + event.timestamp();
    return found.equals(newest) && !isReported(generation);
  }

  private static synchronized boolean isReported(String generation) {
    Runs runs = RUNS.get(generation);
    return runs != null && !runs.lines.isEmpty();
  }

  /**
   * What was reported of {@code generation} since the last call, {@link KeptLines#take}: lines
   * without its name.
   */
  public static synchronized String take(String generation, long call) {
    Runs runs = RUNS.get(generation);
    return runs == null ? "" : runs.lines.take(call);
  }

  /**
   * Which executors may still write for {@code flow}; empty once all have reported, after {@code
   * since}, that nothing of it is running or in flight, or must have ended. Its generations that
   * are open go on meanwhile, and write to other partitions.
   */
  public static synchronized String mayWrite(String flow, long since) {
    long now = System.nanoTime();
    hurryUntil = now + TimeUnit.SECONDS.toNanos(1);
    StringBuilder found = new StringBuilder();
    EXECUTORS.values().removeIf(executor -> executor.isLost && leftNanos(executor, now) <= 0);
    EXECUTORS.forEach(
        (id, executor) -> {
          String reason = reason(executor, flow, since, now, ExecutorReports.LOCAL.equals(id));
          if (!reason.isEmpty()) {
            found.append(found.length() == 0 ? "" : ", ");
            found.append("executor ").append(id).append(' ').append(reason);
          }
        });
    if (found.length() == 0) {
      ABANDONED.remove(flow);
    }
    return found.toString();
  }

  /**
   * The target partitions to which records of {@code flow} are in flight, {@code topic partition}
   * with a tab between them in each line, if that is all that {@link #mayWrite} waits for; empty
   * where it is not, or not known.
   */
  public static synchronized String held(String flow, long since) {
    long now = System.nanoTime();
    Set<String> found = new TreeSet<>();
    for (Map.Entry<String, Executor> entry : EXECUTORS.entrySet()) {
      Executor executor = entry.getValue();
      boolean isLocal = ExecutorReports.LOCAL.equals(entry.getKey());
      if (reason(executor, flow, since, now, isLocal).isEmpty()) {
        continue;
      }
      boolean isHeard = !executor.isLost && executor.heardBefore - since > 0;
      Predicate<String> isStopped = stopped(flow);
      Set<String> own = new TreeSet<>();
      executor.held.forEach(
          (generation, at) -> own.addAll(isStopped.test(generation) ? at : Set.of()));
      if (!isHeard || own.isEmpty() || executor.busy(isStopped)[1] > 0) {
        return "";
      }
      found.addAll(own);
    }
    return String.join("\n", found);
  }

  /**
   * Whether every executor that lives has made a report after {@code since}: what was acknowledged
   * before is known then.
   */
  public static synchronized boolean haveReported(long since) {
    long now = System.nanoTime();
    return EXECUTORS.values().stream()
        .filter(executor -> lives(executor, now))
        .allMatch(executor -> executor.heardBefore - since > 0);
  }

  /** Whether a generation is one of {@code flow} that nothing has open. */
  private static Predicate<String> stopped(String flow) {
    return generation ->
        PartitionCopy.flowOf(generation).equals(flow) && !RUNS.containsKey(generation);
  }

  private static boolean lives(Executor executor, long now) {
    return !executor.isLost && leftNanos(executor, now) > 0;
  }

  /**
   * What is known of {@code flow}, in lines of tab-separated fields: {@code executors living
   * silentMillis records tasks allTasks}, with what is in flight and running and what runs of all
   * flows, {@code throttled milliseconds client.id} for each client of any flow that a quota holds
   * back, and those of {@link FlowFigures}.
   */
  public static synchronized String figures(String flow) {
    long now = System.nanoTime();
    long living = 0;
    long silent = 0;
    long[] busy = {0, 0};
    long tasks = 0;
    Map<String, Long> throttled = new TreeMap<>();
    for (Executor executor : EXECUTORS.values()) {
      if (lives(executor, now)) {
        living++;
        silent = Math.max(silent, now - executor.heardAt);
        long[] own = executor.busy(one -> PartitionCopy.flowOf(one).equals(flow));
        busy[0] += own[0];
        busy[1] += own[1];
        tasks += executor.busy(one -> true)[1];
        executor.throttled.forEach((client, millis) -> throttled.merge(client, millis, Math::max));
      }
    }
    StringBuilder lines = new StringBuilder("executors\t").append(living).append('\t');
    lines.append(TimeUnit.NANOSECONDS.toMillis(silent)).append('\t').append(busy[0]);
    lines.append('\t').append(busy[1]).append('\t').append(tasks).append('\n');
    throttled.forEach(
        (client, millis) ->
            lines.append("throttled\t").append(millis).append('\t').append(client).append('\n'));
    return FIGURES.getOrDefault(flow, new FlowFigures()).appendTo(lines).toString();
  }

  /** Lets executors give up what {@code flow} has in flight, until {@link #mayWrite} finds none. */
  public static synchronized void abandon(String flow) {
    ABANDONED.add(flow);
  }

  /** Sets the limits of {@code flow} as {@link Limits#set} does; executors hear of them soon. */
  public static synchronized boolean limit(String flow, String limits) {
    return LIMITS.set(flow, limits);
  }

  /** How the limits of {@code flow} are used, as {@link Limits#figures} says it. */
  public static synchronized String limits(String flow) {
    return LIMITS.figures(flow);
  }

  private static String reason(
      Executor executor, String flow, long since, long now, boolean isLocal) {
    long leftNanos = leftNanos(executor, now);
    if (executor.isLost) {
      return "is lost and may live for another " + TimeUnit.NANOSECONDS.toMillis(leftNanos) + " ms";
    }
    if (leftNanos <= 0 && !isLocal) {
      return ""; // it has ended by itself, though Spark has not noticed yet
    }
    if (executor.heardBefore - since <= 0) { // the last report may have been made before
      return "has not reported yet";
    }
    long[] busy = executor.busy(stopped(flow));
    if (busy[0] == 0 && busy[1] == 0) {
      return "";
    }
    return "has " + busy[0] + " records in flight and runs " + busy[1] + " tasks";
  }

  private static long leftNanos(Executor executor, long now) {
    return executor.heardAt + leaseNanos + MARGIN_NANOS - now;
  }

  @Override
  public Map<String, String> init(SparkContext spark, PluginContext context) {
    String interval = context.conf().get(INTERVAL_KEY, INTERVAL_MS);
    String lease = context.conf().get(LEASE_KEY, LEASE_MS);
    spark.addSparkListener(
        new SparkListener() {
          @Override
          public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
            lost(event.executorId());
          }
        });
    return start(interval, lease);
  }

  /** Knows no executor from now on; what those of this application are told. */
  static synchronized Map<String, String> start(String intervalMs, String leaseMs) {
    EXECUTORS.clear();
    RUNS.clear();
    ABANDONED.clear();
    Pauses.clear();
    FIGURES.clear();
    LIMITS.clear();
    WantedSchemas.clear();
    isLoaded = true;
    leaseNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(leaseMs));
    token = newToken();
    return Map.of(
        ExecutorReports.INTERVAL,
        intervalMs,
        ExecutorReports.LEASE,
        leaseMs,
        ExecutorReports.TOKEN,
        token);
  }

  static synchronized void lost(String id) {
    // one that never reported is not known: it had no task yet
    if (EXECUTORS.containsKey(id)) {
      EXECUTORS.get(id).isLost = true;
      WantedSchemas.forget(id);
    }
  }

  /**
   * Takes a report; the answer is whether to hurry, then a line {@code abandon flow} for each flow
   * to abandon, {@code limits flow ...} for each with limits, and {@code paused flow topic
   * partition} for each partition that no task reads for now. A report without the token of this
   * driver's executors gets none, so that its sender knows that it was not heard.
   */
  @Override
  public Object receive(Object message) {
    synchronized (DriverReports.class) {
      String[] lines = ((String) message).split("\n");
      String[] from = lines[0].split("\t");
      if (from.length != 4 || !isSame(from[3], token)) {
        throw new SecurityException("a report without the token of this driver's executors");
      }
      Executor executor = EXECUTORS.computeIfAbsent(from[1], unused -> new Executor());
      long now = System.nanoTime();
      executor.heardBefore = executor.heardAt;
      executor.heardAt = now;
      long number = Long.parseLong(from[2]);
      if (number > executor.number) { // not one that came before and whose answer was lost
        executor.number = number;
        executor.busy.clear();
        executor.held.clear();
        LIMITS.begin(from[1]);
        executor.throttled.clear();
        WantedSchemas.forget(from[1]);
        for (int i = 1; i < lines.length; i++) {
          keep(from[1], executor, lines[i]);
        }
      }
      StringJoiner answer = new StringJoiner("\n").add(hurryUntil - now > 0 ? HURRY : "");
      ABANDONED.forEach(flow -> answer.add(ExecutorReports.ABANDON + "\t" + flow));
      LIMITS.answer(answer, from[1], thatMayLive(now, false), thatMayLive(now, true));
      WantedSchemas.answer(answer, from[1]);
      Pauses.answer(answer);
      return answer.toString();
    }
  }

  /** The executors whose time is not over, lost ones or the others. */
  private static Set<String> thatMayLive(long now, boolean isLost) {
    Set<String> found = new TreeSet<>(EXECUTORS.keySet());
    found.removeIf(
        id -> EXECUTORS.get(id).isLost != isLost || leftNanos(EXECUTORS.get(id), now) <= 0);
    return found;
  }

  private static void keep(String id, Executor executor, String line) {
    String[] fields = line.split("\t", 4);
    if (fields[0].equals("limited")) {
      LIMITS.heard(id, fields[1], fields[2], fields[3]);
      return;
    }
    if (fields[0].equals(SchemaIds.WANTED)) {
      WantedSchemas.heard(id, fields[1], fields[2] + '\t' + fields[3]);
      return;
    }
    if (fields[0].equals("busy")) {
      executor.busy.put(
          fields[1], new long[] {Long.parseLong(fields[2]), Long.parseLong(fields[3])});
      return;
    }
    if (fields[0].equals("held")) {
      String partition = fields[2] + '\t' + fields[3];
      executor.held.computeIfAbsent(fields[1], unused -> new TreeSet<>()).add(partition);
      return;
    }
    if (fields[0].equals("throttled")) {
      executor.throttled.put(fields[2], Long.parseLong(fields[1]));
      return;
    }
    Runs runs = RUNS.get(fields[2]);
    if (runs == null || !isSame(fields[1], runs.token)) {
      return;
    }
    if (fields[0].equals("timed")) {
      String flow = PartitionCopy.flowOf(fields[2]);
      FIGURES.computeIfAbsent(flow, unused -> new FlowFigures()).add(fields[3]);
      return;
    }
    WantedSchemas.left(fields); // if it says so
    runs.lines.add(fields[0] + '\t' + fields[3]);
  }

  /** Whether a token is right; how long that takes says nothing of the right one. */
  private static boolean isSame(String found, String wanted) {
    return MessageDigest.isEqual(found.getBytes(UTF_8), wanted.getBytes(UTF_8));
  }

  @Override
  public void shutdown() {
    synchronized (DriverReports.class) {
      isLoaded = false;
    }
  }
}
