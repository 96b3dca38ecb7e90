package replication.source;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import replication.producer.RateLimit;
import replication.producer.SchemaGate;
import replication.producer.SchemaIds;
import replication.producer.Throttle;

/**
 * The partitions of a task that stand although they have records: their topics have used up a limit
 * of their own for now, or a registry does not know the schema of the next record yet.
 *
 * <p>A record that waited for that in the producer would hold up all partitions of the task. Here
 * only its own partition stands, and the others go on.
 */
final class HeldUp {
  /** What a partition waits for. */
  private interface Cause {
    boolean isOver();

    void end();
  }

  private record Spent(RateLimit limit) implements Cause {
    @Override
    public boolean isOver() {
      return !limit.isUsedUp();
    }

    @Override
    public void end() {
      limit.endWait();
    }
  }

  private record Unknown(SchemaIds.Want want, ConsumerRecord<byte[], byte[]> record)
      implements Cause {
    @Override
    public boolean isOver() {
      return want.isOver() && !want.isLeaving(); // what the driver knows as left is left
    }

    @Override
    public void end() {
      want.end();
    }
  }

  private final Map<FetchedPartition, Cause> partitions = new LinkedHashMap<>();
  private Throttle throttle;
  private SchemaGate gate;

  /** Goes by the limits of a flow from now on. */
  void follow(Throttle ofFlow) {
    throttle = ofFlow;
  }

  /** Lets no record through from now on whose schema is not known; any if it is null. */
  void follow(SchemaGate ofTask) {
    gate = ofTask;
  }

  boolean isEmpty() {
    return partitions.isEmpty();
  }

  /** Takes a partition whose next record has to wait; tells whether it does. */
  boolean takes(FetchedPartition partition) {
    Cause cause = partition.hasRecords() ? cause(partition) : null;
    if (cause != null) {
      partitions.put(partition, cause);
    }
    return cause != null;
  }

  private Cause cause(FetchedPartition partition) {
    if (throttle != null && throttle.isLimited()) {
      RateLimit limit = throttle.usedUp(partition.partition.topic());
      if (limit != null) {
        limit.beginWait();
        return new Spent(limit);
      }
    }
    ConsumerRecord<byte[], byte[]> record = gate == null ? null : partition.unchecked();
    SchemaIds.Want want = record == null ? null : gate.ask(record);
    return want == null ? null : new Unknown(want, record);
  }

  /** Gives back those that may go on. */
  List<FetchedPartition> release() {
    List<FetchedPartition> released = new ArrayList<>();
    Iterator<Map.Entry<FetchedPartition, Cause>> entries = partitions.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry<FetchedPartition, Cause> entry = entries.next();
      if (entry.getValue().isOver()) {
        entry.getValue().end();
        if (entry.getValue() instanceof Unknown unknown && unknown.want.isRefused()) {
          entry.getKey().letThrough(); // the producer asks once more, and fails with the task
        }
        released.add(entry.getKey());
        entries.remove();
      }
    }
    return released;
  }

  /**
   * Gives up those that wait for a schema in vain, once all that is {@code open} waits for one: the
   * batch ends before their next record. The driver has to know of it first, so a later call gives
   * them back.
   */
  List<FetchedPartition> leave(Collection<FetchedPartition> open) {
    List<FetchedPartition> left = new ArrayList<>();
    for (FetchedPartition partition : open) {
      if (!(partitions.get(partition) instanceof Unknown)) {
        return List.of();
      }
    }
    for (FetchedPartition partition : open) {
      Unknown unknown = (Unknown) partitions.get(partition);
      if (unknown.want.isLeft()) {
        drop(partition);
        left.add(partition);
      } else if (unknown.want.isInVain() && !unknown.want.isLeaving()) {
        gate.leave(unknown.want, unknown.record);
      }
    }
    return left;
  }

  /** All of them. */
  List<TopicPartition> all() {
    return partitions.keySet().stream().map(held -> held.partition).toList();
  }

  /** Forgets one that is not to be read now, whatever it waits for. */
  void drop(FetchedPartition partition) {
    Cause cause = partitions.remove(partition);
    if (cause != null) {
      cause.end();
    }
  }

  /** Forgets all of them. */
  void clear() {
    partitions.values().forEach(Cause::end);
    partitions.clear();
  }
}
