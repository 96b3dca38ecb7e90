package replication.plugin;

import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import replication.producer.PartitionCopy;
import replication.producer.SchemaIds;
import replication.source.LeftOut;

/**
 * Which ids of schemas the executors' tasks wait for, and which are known. Guarded by the class.
 */
public final class WantedSchemas {
  // Static, since Python reaches classes and not Spark's plugin objects.
  private static final Map<String, TreeMap<String, TreeSet<String>>> WANTED = new HashMap<>();
  private static final Map<String, Map<String, String>> KNOWN = new HashMap<>(); // place: ids

  private WantedSchemas() {}

  static synchronized void clear() {
    WANTED.clear();
    KNOWN.clear();
    LeftOut.clear();
  }

  /** Forgets what an executor waited for: it reports anew, or is lost. */
  static synchronized void forget(String executor) {
    WANTED.remove(executor);
  }

  /** Takes {@code flow} and {@code topic partition offset part id how} of a record that waits. */
  static synchronized void heard(String executor, String flow, String record) {
    WANTED
        .computeIfAbsent(executor, unused -> new TreeMap<>())
        .computeIfAbsent(flow, unused -> new TreeSet<>())
        .add(record);
  }

  /** Takes a line as {@link SchemaIds#report} has it, with which a batch leaves out a partition. */
  static synchronized void left(String... line) {
    if (!line[0].equals(SchemaIds.LEFT)) {
      return;
    }
    String[] fields = line[3].split("\t"); // topic partition and the rest
    String[] rest = fields[2].split(","); // batch offset upstream part id
    String record = String.join("\t", fields[0], fields[1], rest[1], rest[3], rest[4], "alone");
    String place = place(PartitionCopy.flowOf(line[2]), record);
    TopicPartition upstream = new TopicPartition(rest[2], Integer.parseInt(fields[1]));
    LeftOut.Stand stand = new LeftOut.Stand(Long.parseLong(rest[1]), place, record, rest[4]);
    LeftOut.add(line[2], upstream, stand);
    LeftOut.answer(place, KNOWN.getOrDefault(place, Map.of()).keySet());
  }

  static void close(String generation) {
    LeftOut.close(generation);
  }

  /** The records of {@code flow} that wait, in lines {@code topic partition offset part id how}. */
  public static synchronized String of(String flow) {
    TreeSet<String> found = new TreeSet<>();
    WANTED.values().forEach(flows -> found.addAll(flows.getOrDefault(flow, new TreeSet<>())));
    LeftOut.waiting(flow + '#').forEach(stand -> found.add(stand.record()));
    return String.join("\n", found);
  }

  /** Lets executors know {@code from=to,...} of a topic's keys or values; a new one wins. */
  public static synchronized void tell(String flow, String topic, String part, String pairs) {
    String place = String.join("\t", flow, topic, part);
    Map<String, String> ids = KNOWN.computeIfAbsent(place, unused -> new TreeMap<>());
    for (String pair : pairs.split(",")) {
      String[] both = pair.split("=");
      ids.put(both[0], both[1]);
    }
    LeftOut.answer(place, ids.keySet());
  }

  /** Adds a line for each place of which {@code executor} waits for an id, if any are known. */
  static synchronized void answer(StringJoiner answer, String executor) {
    TreeSet<String> places = new TreeSet<>();
    WANTED
        .getOrDefault(executor, new TreeMap<>())
        .forEach((flow, records) -> records.forEach(one -> places.add(place(flow, one))));
    for (String place : places) {
      Map<String, String> ids = KNOWN.getOrDefault(place, Map.of());
      if (!ids.isEmpty()) {
        StringJoiner pairs = new StringJoiner(",");
        ids.forEach((from, to) -> pairs.add(from + '=' + to));
        answer.add(String.join("\t", SchemaIds.ANSWER, place, pairs.toString()));
      }
    }
  }

  private static String place(String flow, String record) {
    String[] fields = record.split("\t"); // topic partition offset part id how
    return String.join("\t", flow, fields[0], fields[3]);
  }
}
