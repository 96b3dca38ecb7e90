package replication.producer;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;

/**
 * The ids of schemas that records need which a task reads: one that is not known is asked for
 * before the task has the record, so that nothing but its partition waits.
 *
 * <p>A topic whose records change on the way is left to {@link SchemaIds}: what is sent of a record
 * may need another id than what was read, or none.
 */
public final class SchemaGate {
  /** Under which Spark gives a task the number of its batch. */
  private static final String BATCH = "streaming.sql.batchId";

  private record Topic(String remote, SchemaIds ids) {}

  private final Map<String, Topic> topics = new HashMap<>(); // by those of the source
  private final String generation; // with its token
  private final String batch;

  private SchemaGate(String generation, String batch) {
    this.generation = generation;
    this.batch = batch;
  }

  /** What a task goes by: its properties name the topics, or none. */
  public static SchemaGate of(TaskContext task) {
    return task == null
        ? of("", "", "")
        : of(
            task.getLocalProperty(SchemaIds.TOPICS),
            task.getLocalProperty(PreserveTimestamps.GENERATION),
            task.getLocalProperty(BATCH));
  }

  /** For the topics of a task's property. */
  public static SchemaGate of(String names, String generation, String batch) {
    SchemaGate gate = new SchemaGate(generation, batch);
    String flow = PartitionCopy.flowOf(generation == null ? "" : generation);
    for (String name : names == null ? new String[0] : names.split(",")) {
      String[] both = name.split(":", 2);
      if (both.length == 2 && !both[1].isEmpty()) {
        gate.topics.put(both[1], new Topic(both[0], SchemaIds.of(flow, both[0])));
      }
    }
    return gate;
  }

  /** Asks for an id that a record lacks; null if it lacks none. */
  public SchemaIds.Want ask(ConsumerRecord<byte[], byte[]> record) {
    Topic topic = topics.isEmpty() ? null : topics.get(record.topic());
    return topic == null ? null : topic.ids.ask(record);
  }

  /** Lets the driver know that the batch ends before a record that waits, at {@code offset}. */
  public void leave(SchemaIds.Want want, TopicPartition tp, long offset) {
    String partition = topics.get(tp.topic()).remote + '\t' + tp.partition();
    String place = String.join(",", batch, "" + offset, tp.topic());
    want.leave(String.join("\t", SchemaIds.LEFT, generation, partition, place));
  }
}
