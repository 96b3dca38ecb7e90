package replication.plugin;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import replication.producer.Durations;

/**
 * How long the records of one flow take, since the process began: by topic from their timestamps,
 * and all together from being handed over. Guarded by {@link DriverReports}.
 */
final class FlowFigures {
  private final Map<String, Durations> latencies = new TreeMap<>(); // by remote topic
  private final Set<String> changed = new TreeSet<>(); // of them
  private final Durations transfer = new Durations();

  /** Adds what an executor reports of a partition: {@code topic partition latency transfer}. */
  void add(String report) {
    String[] fields = report.split("\t");
    latencies.computeIfAbsent(fields[0], unused -> new Durations()).add(fields[2]);
    changed.add(fields[0]);
    transfer.add(fields[3]);
  }

  /**
   * Appends {@code transfer durations}, and {@code latency topic durations} for each topic that has
   * changed since the last call. A reader that loses an answer has the next one, as these are sums;
   * only the longest is since the last call.
   */
  StringBuilder appendTo(StringBuilder lines) {
    transfer.appendTo(lines.append("transfer\t")).append('\n');
    transfer.forgetLongest();
    for (String topic : changed) {
      Durations latency = latencies.get(topic);
      latency.appendTo(lines.append("latency\t").append(topic).append('\t')).append('\n');
      latency.forgetLongest();
    }
    changed.clear();
    return lines;
  }
}
