package replication.source;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * The partitions, on the driver, that a micro-batch has left out before its end, since the next
 * record waits for a schema. Guarded by the class.
 *
 * <p>Spark takes such a batch for whole. So the next one goes back to that record, and reads
 * nothing of the partition; those after it go on from there, once the schema is known.
 */
public final class LeftOut {
  /** Where a partition stands, and for what: lines and words of {@code WantedSchemas}. */
  public record Stand(long at, String place, String record, String id) {}

  private static final Map<String, Map<TopicPartition, Stand>> GENERATIONS = new HashMap<>();
  private static final Map<String, Map<TopicPartition, Stand>> ANSWERED = new HashMap<>();

  private LeftOut() {}

  /** Takes note that a batch of {@code generation} has ended before {@code stand}. */
  public static synchronized void add(String generation, TopicPartition tp, Stand stand) {
    GENERATIONS.computeIfAbsent(generation, unused -> new HashMap<>()).put(tp, stand);
  }

  /** Lets those go on that wait, in {@code place}, for one of {@code ids}. */
  public static synchronized void answer(String place, Set<String> ids) {
    GENERATIONS.forEach(
        (generation, stands) ->
            stands.forEach(
                (tp, stand) -> {
                  if (stand.place.equals(place) && ids.contains(stand.id)) {
                    ANSWERED.computeIfAbsent(generation, unused -> new HashMap<>()).put(tp, stand);
                  }
                }));
  }

  /** Those that wait still, of generations that begin with {@code prefix}. */
  public static synchronized List<Stand> waiting(String prefix) {
    List<Stand> found = new ArrayList<>();
    GENERATIONS.forEach(
        (generation, stands) -> {
          if (generation.startsWith(prefix)) {
            found.addAll(stands.values());
            found.removeAll(ANSWERED.getOrDefault(generation, Map.of()).values());
          }
        });
    return found;
  }

  /**
   * Where each partition stands that the next batch of {@code generation} does not read, if that
   * begins at {@code starts}. What goes on from there is forgotten.
   */
  static synchronized Map<TopicPartition, Long> standing(
      String generation, Map<TopicPartition, Long> starts) {
    Map<TopicPartition, Stand> stands = GENERATIONS.getOrDefault(generation, new HashMap<>());
    Map<TopicPartition, Stand> answered = ANSWERED.getOrDefault(generation, new HashMap<>());
    Map<TopicPartition, Long> found = new HashMap<>();
    for (Map.Entry<TopicPartition, Stand> entry : List.copyOf(stands.entrySet())) {
      TopicPartition tp = entry.getKey();
      long at = entry.getValue().at;
      if (starts.get(tp) == at && answered.remove(tp, entry.getValue())) {
        stands.remove(tp);
      } else {
        found.put(tp, at);
      }
    }
    return found;
  }

  /** Whether a batch of {@code generation} goes back to {@code end}, and reads nothing. */
  static synchronized boolean goesBack(String generation, TopicPartition tp, long end) {
    Stand stand = GENERATIONS.getOrDefault(generation, Map.of()).get(tp);
    return stand != null && stand.at == end;
  }

  /** Forgets a generation that is over. */
  public static synchronized void close(String generation) {
    GENERATIONS.remove(generation);
    ANSWERED.remove(generation);
  }

  /** Forgets all of them. */
  public static synchronized void clear() {
    GENERATIONS.clear();
    ANSWERED.clear();
  }
}
