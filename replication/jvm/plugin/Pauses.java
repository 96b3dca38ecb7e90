package replication.plugin;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import replication.source.PausedPartitions;

/** What tasks of the shared source do not read for now: the driver's word, and how it is passed. */
public final class Pauses {
  /** Begins a line of an answer; flow, topic and partition follow. */
  private static final String PAUSED = "paused";

  private static final Map<String, Set<TopicPartition>> BY_FLOW = new TreeMap<>();

  /**
   * Lets no task of {@code flow} read {@code partitions} from now on: lines of a topic and a number
   * with a tab between them, those of the last call taken back. Executors hear of it with the
   * answer to their next report. Returns whether it is news.
   */
  public static synchronized boolean pause(String flow, String partitions) {
    Set<TopicPartition> paused = new HashSet<>();
    partitions.lines().forEach(line -> paused.add(partition(line.split("\t"), 0)));
    Set<TopicPartition> before =
        paused.isEmpty() ? BY_FLOW.remove(flow) : BY_FLOW.put(flow, Set.copyOf(paused));
    PausedPartitions.set(BY_FLOW);
    return !paused.equals(before == null ? Set.of() : before);
  }

  static synchronized void clear() {
    BY_FLOW.clear();
    PausedPartitions.set(BY_FLOW);
  }

  static synchronized void answer(StringJoiner answer) {
    BY_FLOW.forEach(
        (flow, paused) ->
            paused.forEach(
                tp ->
                    answer.add(
                        String.join(
                            "\t", PAUSED, flow, tp.topic(), String.valueOf(tp.partition())))));
  }

  /** Follows the lines of an answer, in an executor's process. */
  static void follow(String[] lines) {
    Map<String, Set<TopicPartition>> paused = new TreeMap<>();
    for (String line : lines) {
      String[] words = line.split("\t");
      if (words[0].equals(PAUSED)) {
        paused.computeIfAbsent(words[1], flow -> new HashSet<>()).add(partition(words, 2));
      }
    }
    PausedPartitions.set(paused);
  }

  private static TopicPartition partition(String[] words, int at) {
    return new TopicPartition(words[at], Integer.parseInt(words[at + 1]));
  }

  private Pauses() {}
}
