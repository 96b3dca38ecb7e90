package replication.source;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Which task of a query reads which partition: the same one in each batch, so that what it has
 * fetched stays of use, until one task has much more to do than the others.
 *
 * <p>In the beginning the partitions are dealt out in their order, so that those of a topic are
 * spread evenly. Loads are records of the last batches, of which older ones count less.
 */
final class PartitionTasks {
  private static final int BATCHES_BETWEEN_MOVES = 10;
  private static final double DECAY = 0.8;
  private static final double TOO_MUCH = 1.5;
  private static final double WORTH_A_MOVE = 1_000;

  private final int tasks;
  private final Map<TopicPartition, Integer> taskOf = new HashMap<>();
  private final Map<TopicPartition, Double> loadOf = new HashMap<>();
  private Map<TopicPartition, Long> before = Map.of();
  private int batches;

  PartitionTasks(Collection<TopicPartition> sorted, int tasks) {
    this.tasks = tasks;
    sorted.forEach(tp -> taskOf.put(tp, taskOf.size() % tasks));
  }

  int of(TopicPartition partition) {
    return taskOf.get(partition);
  }

  /** Takes note of where a batch begins; may move partitions before it does. */
  void begin(Map<TopicPartition, Long> starts) {
    move(moves(starts));
  }

  /** Takes note of where a batch begins. Which partitions should go to which other tasks? */
  Map<TopicPartition, Integer> moves(Map<TopicPartition, Long> starts) {
    starts.forEach(
        (tp, start) -> {
          long records = Math.max(0, start - before.getOrDefault(tp, start));
          loadOf.merge(tp, (double) records, (load, more) -> DECAY * load + more);
        });
    before = Map.copyOf(starts);
    return ++batches >= BATCHES_BETWEEN_MOVES ? balance() : Map.of();
  }

  /** Moves partitions before a batch begins. */
  void move(Map<TopicPartition, Integer> moves) {
    if (!moves.isEmpty()) {
      taskOf.putAll(moves);
      batches = 0;
    }
  }

  /** Moves from the busiest task to the idlest ones; the others keep their fetches. */
  private Map<TopicPartition, Integer> balance() {
    double[] loads = new double[tasks];
    taskOf.forEach((tp, task) -> loads[task] += loadOf.getOrDefault(tp, 0.0));
    double mean = Arrays.stream(loads).sum() / tasks;
    double most = Math.max(WORTH_A_MOVE, TOO_MUCH * mean);
    int busiest = extreme(loads, 1);
    if (loads[busiest] < most) { // most often: nobody sorts thousands of names for that
      return Map.of();
    }
    Map<TopicPartition, Integer> moves = new HashMap<>();
    for (TopicPartition tp : largestFirst(busiest)) {
      if (loads[busiest] < most) {
        break;
      }
      int idlest = extreme(loads, -1);
      double load = loadOf.getOrDefault(tp, 0.0);
      if (load > 0 && loads[idlest] + load < loads[busiest]) {
        loads[busiest] -= load;
        loads[idlest] += load;
        moves.put(tp, idlest);
      }
    }
    return moves;
  }

  private List<TopicPartition> largestFirst(int task) {
    List<TopicPartition> found = new ArrayList<>();
    taskOf.forEach(
        (tp, of) -> {
          if (of == task) {
            found.add(tp);
          }
        });
    found.sort(
        Comparator.comparingDouble((TopicPartition tp) -> -loadOf.getOrDefault(tp, 0.0))
            .thenComparing(TopicPartition::toString));
    return found;
  }

  private static int extreme(double[] loads, int sign) {
    int found = 0;
    for (int task = 1; task < loads.length; task++) {
      found = sign * loads[task] > sign * loads[found] ? task : found;
    }
    return found;
  }
}
