package replication.source;

import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.unsafe.types.UTF8String;
import replication.producer.PartitionCopy;
import replication.producer.PreserveTimestamps;

/** One partition of a task: what was fetched of it, and how much of that was passed on. */
final class FetchedPartition {
  private static final long LOST = -1;
  private static final long UNKNOWN = -1;

  final TopicPartition partition;

  /** The topic's name as Spark's rows have it. */
  final UTF8String topic;

  /** The partition's number as Spark's rows have it. */
  final Integer number;

  private long next;
  private Integer epoch; // of the leader that has the record before; null if nobody knows it
  private long until;
  private boolean isFinished;
  private List<ConsumerRecord<byte[], byte[]>> records = List.of();
  private int at;
  private long bytes = UNKNOWN;
  private long letThrough = LOST;
  private PartitionCopy first; // of which this batch has sent a record that was not answered yet
  private boolean isAnswered; // to what this batch has sent

  FetchedPartition(TopicPartition partition, long from, Integer epoch) {
    this.partition = partition;
    this.epoch = epoch;
    topic = UTF8String.fromString(partition.topic());
    number = partition.partition();
    next = from;
  }

  /** The offset after the last record that was passed on, or the end of a batch. */
  long next() {
    return next;
  }

  /** The offset after the last record that was fetched. */
  long fetchedUntil() {
    return records.isEmpty() ? next : records.get(records.size() - 1).offset() + 1;
  }

  /** The epoch of the leader that has the record before {@link #next}; null if unknown. */
  Integer epoch() {
    return epoch;
  }

  /** Where a client goes on after the last record that was passed on. */
  OffsetAndMetadata place() {
    return place(next, epoch);
  }

  /** Where a client goes on after the last record that was fetched. */
  OffsetAndMetadata fetchedPlace() {
    return records.isEmpty()
        ? place()
        : place(fetchedUntil(), epochOf(records.get(records.size() - 1)));
  }

  /**
   * With the epoch, the client asks the next leader whether its log is still the one that was read
   * up to there.
   */
  private static OffsetAndMetadata place(long offset, Integer epoch) {
    return new OffsetAndMetadata(offset, Optional.ofNullable(epoch), "");
  }

  private static Integer epochOf(ConsumerRecord<byte[], byte[]> record) {
    return record.leaderEpoch().orElse(null);
  }

  boolean isFinished() {
    return isFinished;
  }

  /** Begins a batch. */
  void begin(long end) {
    until = end;
    isFinished = false;
    first = null; // a task that has ended left nothing in flight
    isAnswered = false; // another producer may write this batch
  }

  void add(List<ConsumerRecord<byte[], byte[]>> fetched) {
    records = fetched;
    at = 0;
    bytes = UNKNOWN;
  }

  boolean hasRecords() {
    return at < records.size();
  }

  /** The next record of the batch; null if there is none, or none yet. */
  ConsumerRecord<byte[], byte[]> take() {
    if (!hasRecords()) {
      add(List.of());
      return null;
    }
    ConsumerRecord<byte[], byte[]> record = records.get(at);
    if (record.offset() >= until) {
      return null;
    }
    at++;
    next = record.offset() + 1;
    epoch = epochOf(record);
    return record;
  }

  /** Notes where this thread has sent what was taken last: nowhere if a filter has dropped it. */
  void noteSent() {
    if (!isAnswered && first == null) {
      first = PreserveTimestamps.lastSent(number, next - 1);
    }
  }

  /** Whether the target has still to acknowledge the first record before it may get another. */
  boolean awaitsFirst() {
    if (first != null && !first.awaitsFirst()) {
      first = null;
      isAnswered = true;
    }
    return first != null;
  }

  /** The next record of the batch, which is not taken; null if there is none, or it may pass. */
  ConsumerRecord<byte[], byte[]> unchecked() {
    ConsumerRecord<byte[], byte[]> record = records.get(at);
    return record.offset() >= until || record.offset() == letThrough ? null : record;
  }

  /** Lets the record at {@code offset} pass, whatever it lacks. */
  void letThrough(long offset) {
    letThrough = offset;
  }

  /** Whether the batch ends before what comes after {@code position}, the client's. */
  boolean isPassed(long position) {
    return (hasRecords() ? records.get(at).offset() : Math.max(next, position)) >= until;
  }

  boolean hasEnd() {
    return until != TaskShare.NO_END;
  }

  /** Ends the batch: the next one begins at its end, wherever the last record was. */
  void finish() {
    isFinished = true;
    epoch = next == until ? epoch : null; // a later leader may have what lies in between
    next = until;
    add(List.copyOf(records.subList(at, records.size()))); // what was passed on is let go
  }

  /** What is in memory of it, also of what was passed on while more is left. */
  long bytes() {
    if (bytes == UNKNOWN) {
      bytes = ClientSettings.sizeOf(records);
    }
    return bytes;
  }

  /**
   * Forgets what is beyond {@code most} bytes, and at least one record, unless all of it is within.
   *
   * @return whether it was not: then it is to be fetched again from {@link #fetchedUntil}
   */
  boolean keep(long most) {
    if (!hasRecords()) {
      add(List.of()); // what was passed on is let go
    }
    if (bytes() <= most) {
      return false;
    }
    int end = at;
    long left = most;
    while (end < records.size() - 1
        && (left -= ClientSettings.sizeOf(records.subList(end, end + 1))) >= 0) {
      end++;
    }
    add(List.copyOf(records.subList(at, end)));
    return true;
  }

  /** Forgets what was fetched and not passed on: it is fetched again from {@link #next}. */
  void pause() {
    add(List.of());
  }

  /** Forgets what was fetched beyond the batch: the next one fetches it again. */
  void drop() {
    add(List.of());
    next = LOST;
    epoch = null;
  }

  @Override
  public String toString() {
    return partition + " at " + next;
  }
}
