package replication.plugin;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;

/**
 * The limits of flows, and which share of each an executor has. Guarded by {@link DriverReports}.
 *
 * <p>An executor learns its share from the answer to each report, and keeps it until the next one.
 * So a share grows only by what others have given up, which they confirm by their next report, and
 * the shares in force never come to more than the limit; within half a second of a changed limit
 * some executors still go by the old one. The share of an executor that is lost is free when it
 * must have ended.
 */
final class Limits {
  static final String ANSWER = "limits"; // begins a line of an answer

  private static final String NO_LIMITS = "0"; // as a version

  private final Map<String, FlowLimits> flows = new TreeMap<>();
  private long versions; // of limits since the process began, so none is met again

  private static final class FlowLimits {
    private String version = NO_LIMITS;
    private String text = "";
    private final List<Limit> limits = new ArrayList<>();
    private final Map<String, String> versions = new HashMap<>(); // that executors go by
  }

  /** Two rates for some topics together. */
  private static final class Limit {
    private final SharedRate bytes;
    private final SharedRate records;
    private final String topics;
    private final Set<String> waiting = new HashSet<>(); // executors

    Limit(String line) {
      String[] fields = line.split("\t", -1);
      bytes = new SharedRate(Double.parseDouble(fields[0]));
      records = new SharedRate(Double.parseDouble(fields[1]));
      topics = fields[2];
    }

    void heard(String id, String report) {
      String[] numbers = report.split(",");
      double waited = Double.parseDouble(numbers[4]);
      double nanos = Double.parseDouble(numbers[5]);
      bytes.heard(id, numbers[0], numbers[2], waited, nanos);
      records.heard(id, numbers[1], numbers[3], waited, nanos);
      if (waited > 0) {
        waiting.add(id);
      } else {
        waiting.remove(id);
      }
    }

    void keep(Set<String> executors) {
      bytes.keep(executors);
      records.keep(executors);
      waiting.retainAll(executors);
    }
  }

  /** Knows no limits from now on. */
  void clear() {
    flows.clear();
  }

  /**
   * Sets the limits of a flow: a line for each with bytes and records a second, -1 for none, and
   * remote topics with commas between them, {@code *} for all.
   *
   * @return whether these are other ones than before
   */
  boolean set(String flow, String text) {
    FlowLimits known = flows.computeIfAbsent(flow, unused -> new FlowLimits());
    if (known.text.equals(text)) {
      return false;
    }
    known.text = text;
    known.version = text.isEmpty() ? NO_LIMITS : Long.toString(++versions);
    known.limits.clear();
    text.lines().map(Limit::new).forEach(known.limits::add);
    return true;
  }

  /** Begins a report: executor {@code id} goes by no limits, but for those that it names now. */
  void begin(String id) {
    flows.values().forEach(known -> known.versions.remove(id));
  }

  /** Takes the fields {@code flow version limit;...} that {@code Throttle.reportAll} has made. */
  void heard(String id, String flow, String version, String reports) {
    FlowLimits known = flows.computeIfAbsent(flow, unused -> new FlowLimits());
    known.versions.put(id, version);
    if (known.version.equals(version)) {
      String[] each = reports.split(";");
      for (int i = 0; i < each.length; i++) {
        known.limits.get(i).heard(id, each[i]);
      }
    }
  }

  /**
   * Appends what executor {@code id} is to obey, as {@code Throttle.obey} reads it.
   *
   * @param living the executors that live, {@code id} among them
   * @param lost those that may still live
   */
  void answer(StringJoiner answer, String id, Set<String> living, Set<String> lost) {
    Set<String> all = new HashSet<>(living);
    all.addAll(lost);
    flows.forEach(
        (flow, known) -> {
          known.versions.keySet().retainAll(all);
          String heard = known.versions.getOrDefault(id, NO_LIMITS);
          if (known.limits.isEmpty() && heard.equals(NO_LIMITS)) {
            return;
          }
          StringJoiner limits = new StringJoiner(";");
          for (Limit limit : known.limits) {
            limit.keep(all);
            limits.add(
                limit.bytes.grant(id, living, lost)
                    + ","
                    + limit.records.grant(id, living, lost)
                    + (heard.equals(known.version) ? "" : "," + limit.topics));
          }
          answer.add(ANSWER + "\t" + flow + '\t' + known.version + '\t' + limits);
        });
  }

  /**
   * How the limits of a flow are used, a line for each in the order in which they were set: bytes
   * and records a second, and how many executors have records that wait.
   */
  String figures(String flow) {
    StringBuilder lines = new StringBuilder();
    FlowLimits known = flows.get(flow);
    for (Limit limit : known == null ? List.<Limit>of() : known.limits) {
      lines.append(limit.bytes.used()).append('\t').append(limit.records.used()).append('\t');
      lines.append(limit.waiting.size()).append('\n');
    }
    return lines.toString();
  }
}
