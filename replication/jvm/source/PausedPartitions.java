package replication.source;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * The partitions that no task of a flow reads for now, though it has a share in them.
 *
 * <p>An operator has paused them, or taken their topic out of the lists. The others of the query go
 * on; a query of their own would cost them seconds.
 */
public final class PausedPartitions {
  private static volatile Map<String, Set<TopicPartition>> byFlow = Map.of();

  /** By flow: the same object until anything changes. */
  static Map<String, Set<TopicPartition>> all() {
    return byFlow;
  }

  /** Those of {@code flow}. */
  static Set<TopicPartition> of(String flow) {
    return byFlow.getOrDefault(flow, Set.of());
  }

  /** Those of all flows, in this process. */
  public static void set(Map<String, Set<TopicPartition>> all) {
    if (!all.equals(byFlow)) {
      byFlow = Map.copyOf(all);
    }
  }

  private PausedPartitions() {}
}
