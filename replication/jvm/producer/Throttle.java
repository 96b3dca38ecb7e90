package replication.producer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;

/**
 * The limits of one flow in this process, as the driver has last answered to a report: see {@link
 * RateLimit}. A process that hears nothing keeps what it has.
 *
 * <p>A record waits here before it is handed over, in the thread of its task, so nothing of what
 * waits is in flight. A cancelled task is interrupted, so a stop does not wait.
 */
public final class Throttle {
  private static final Map<String, Throttle> FLOWS = new ConcurrentHashMap<>();
  private static final RateLimit[] NOTHING = {};

  private final RateLimit.Clock clock;
  private String version = "0"; // of the limits, by the driver; 0 for none
  private volatile RateLimit[] limits = NOTHING;

  Throttle(RateLimit.Clock clock) {
    this.clock = clock;
  }

  /** The limits of the flow that a task is of, which may be none. */
  public static Throttle of(TaskContext task) {
    String generation = task == null ? null : task.getLocalProperty(PreserveTimestamps.GENERATION);
    return of(PartitionCopy.flowOf(generation == null ? "" : generation));
  }

  public static Throttle of(String flow) {
    return FLOWS.computeIfAbsent(flow, unused -> new Throttle(RateLimit.REAL));
  }

  /**
   * Sets the limits of a flow by what the driver answers: {@code flow version limit;...} with tabs
   * between them. A limit is {@code bytesPerSecond,recordsPerSecond,topic,...}, where -1 is for
   * none, {@code *} for all topics, and a topic is the remote one, a colon and the upstream one.
   * Without topics only the rates of a known version change.
   */
  public static void obey(String answer) {
    String[] fields = answer.split("\t", -1);
    of(fields[0]).set(fields[1], fields[2]);
  }

  /**
   * Appends {@code limited flow version limit;...} for each flow with limits, as in {@link
   * RateLimit#report}.
   */
  public static void reportAll(StringBuilder lines) {
    FLOWS.forEach((flow, throttle) -> throttle.report(flow, lines));
  }

  synchronized void set(String ofVersion, String text) {
    String[] wanted = text.isEmpty() ? new String[0] : text.split(";");
    if (!ofVersion.equals(version)) {
      List<RateLimit> over = new ArrayList<>(List.of(limits));
      RateLimit[] found = wanted.length == 0 ? NOTHING : new RateLimit[wanted.length];
      for (int i = 0; i < wanted.length; i++) {
        found[i] = takeOrMake(wanted[i], over);
      }
      setRates(found, wanted);
      version = ofVersion;
      limits = found;
      over.forEach(RateLimit::end);
    } else {
      setRates(limits, wanted);
    }
  }

  private static void setRates(RateLimit[] limits, String... wanted) {
    for (int i = 0; i < wanted.length; i++) {
      String[] rates = wanted[i].split(",", 3);
      limits[i].set(Double.parseDouble(rates[0]), Double.parseDouble(rates[1]));
    }
  }

  private static Map<String, String> topics(String limit) {
    String topics = limit.split(",", 3)[2];
    if (topics.equals("*")) {
      return null;
    }
    Map<String, String> found = new HashMap<>();
    for (String names : topics.split(",")) {
      String[] remoteAndUpstream = names.split(":");
      found.put(remoteAndUpstream[0], remoteAndUpstream[1]);
    }
    return found;
  }

  /** A limit of these topics; one that is known keeps its debts, and leaves {@code known}. */
  private RateLimit takeOrMake(String wanted, List<RateLimit> known) {
    Map<String, String> topics = topics(wanted);
    for (RateLimit limit : known) {
      if (limit.isOf(topics)) {
        known.remove(limit);
        return limit;
      }
    }
    return new RateLimit(topics, clock);
  }

  public boolean isLimited() {
    return limits.length > 0;
  }

  /** How many limits there are. */
  public int count() {
    return limits.length;
  }

  /** The limit of its own that an upstream topic has used up for now; null if none. */
  public RateLimit usedUp(String upstream) {
    for (RateLimit limit : limits) {
      if (limit.isOfUpstream(upstream) && limit.isUsedUp()) {
        return limit;
      }
    }
    return null;
  }

  /** Waits until a record of {@code size} bytes may be sent to a topic. */
  public void take(String topic, int size) throws InterruptedException {
    for (RateLimit limit : limits) {
      if (limit.covers(topic)) {
        limit.take(size);
      }
    }
  }

  synchronized void report(String flow, StringBuilder lines) {
    if (version.equals("0")) {
      return;
    }
    lines.append("limited\t").append(flow).append('\t').append(version).append('\t');
    for (RateLimit limit : limits) {
      limit.report(lines);
      lines.append(';');
    }
    lines.append('\n');
  }
}
