package replication.source;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import replication.producer.RateLimit;
import replication.producer.Throttle;

/**
 * The partitions of a task whose topics have used up a limit of their own for now.
 *
 * <p>A record that waited for it in the producer would hold up all partitions of the task. Here
 * only its own partition stands, and the others go on.
 */
final class HeldUp {
  private final Map<FetchedPartition, RateLimit> partitions = new LinkedHashMap<>();
  private Throttle throttle;

  /** Goes by the limits of a flow from now on. */
  void follow(Throttle ofFlow) {
    throttle = ofFlow;
  }

  boolean isEmpty() {
    return partitions.isEmpty();
  }

  /** Takes a partition with a record, if its topic has used up a limit; tells whether it does. */
  boolean takes(FetchedPartition partition) {
    if (throttle == null || !throttle.isLimited() || !partition.hasRecords()) {
      return false;
    }
    RateLimit limit = throttle.usedUp(partition.partition.topic());
    if (limit == null) {
      return false;
    }
    limit.beginWait();
    partitions.put(partition, limit);
    return true;
  }

  /** Gives back those that may go on. */
  List<FetchedPartition> release() {
    List<FetchedPartition> released = new ArrayList<>();
    Iterator<Map.Entry<FetchedPartition, RateLimit>> entries = partitions.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry<FetchedPartition, RateLimit> entry = entries.next();
      if (!entry.getValue().isUsedUp()) {
        entry.getValue().endWait();
        released.add(entry.getKey());
        entries.remove();
      }
    }
    return released;
  }

  /** All of them. */
  List<TopicPartition> all() {
    return partitions.keySet().stream().map(held -> held.partition).toList();
  }

  /** Forgets one that is not to be read now, limit or not. */
  void drop(FetchedPartition partition) {
    RateLimit limit = partitions.remove(partition);
    if (limit != null) {
      limit.endWait();
    }
  }

  /** Forgets all of them. */
  void clear() {
    partitions.values().forEach(RateLimit::endWait);
    partitions.clear();
  }
}
