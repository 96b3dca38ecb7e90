package replication.transform;

import java.io.Serial;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskKilledException;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A transform fails on a record. Neither text nor cause has what the record holds, as the texts of
 * Spark's own exceptions do: the condition, or the class, and the place.
 */
public final class TransformFailure extends RuntimeException {
  @Serial private static final long serialVersionUID = 1L;

  private final String topic;
  private final int partition;
  private final long offset;

  private TransformFailure(String text, UTF8String topic, int partition, long offset) {
    super(text, null, false, false);
    this.topic = String.valueOf(topic);
    this.partition = partition;
    this.offset = offset;
  }

  public String topic() {
    return topic;
  }

  public int partition() {
    return partition;
  }

  public long offset() {
    return offset;
  }

  /** What evaluating a part of a record means that became NULL and must not. */
  public static TransformFailure ofNull(
      String transform, String part, UTF8String topic, int partition, long offset) {
    String what = part.equals("filter") ? " is NULL" : " becomes NULL";
    return new TransformFailure(
        text(transform, part + what, topic, partition, offset), topic, partition, offset);
  }

  /** What evaluating a part of a record means that has thrown; throws what no record can cause. */
  public static TransformFailure of(
      String transform,
      String part,
      UTF8String topic,
      int partition,
      long offset,
      Throwable thrown) {
    if (thrown instanceof TransformFailure failure) { // of a step within this one
      return failure;
    }
    if (thrown instanceof TaskKilledException killed) {
      throw killed;
    }
    if (thrown instanceof InternalError || isOfMachine(thrown)) {
      throw (Error) thrown;
    }
    String what = part + " throws " + name(thrown);
    String step = "";
    if (thrown instanceof Bounded.Exceeded exceeded) {
      what = part + ' ' + exceeded.what;
      step = ": " + exceeded.step;
    } else if (thrown instanceof StackOverflowError) {
      step = ": a pattern needs more stack than a task has. " + Bounded.POSSESSIVE;
    }
    return new TransformFailure(
        text(transform, what, topic, partition, offset) + step, topic, partition, offset);
  }

  private static String text(
      String transform, String what, UTF8String topic, int partition, long offset) {
    return "the transform "
        + transform
        + " fails: its "
        + what
        + " for "
        + topic
        + '-'
        + partition
        + " offset "
        + offset;
  }

  private static String name(Throwable thrown) {
    String condition = thrown instanceof SparkThrowable known ? known.getCondition() : null;
    return condition == null ? thrown.getClass().getSimpleName() : condition;
  }

  /** Whether memory is short without what the record asked for, which is garbage by now. */
  private static boolean isOfMachine(Throwable thrown) {
    if (!(thrown instanceof OutOfMemoryError)) {
      return false;
    }
    System.gc();
    Runtime now = Runtime.getRuntime();
    return now.totalMemory() - now.freeMemory() > now.maxMemory() / 4 * 3;
  }
}
