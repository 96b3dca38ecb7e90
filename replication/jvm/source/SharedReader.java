package replication.source;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import replication.producer.PreserveTimestamps;
import replication.producer.SchemaGate;
import replication.producer.Throttle;

/** A task's half of {@link SharedSource}: the records of its share, as rows. */
final class SharedReader implements SupportsRealTimeRead<InternalRow> {
  private static final RecordStatus RECORD = RecordStatus.newStatusWithoutArrivalTime(true);
  private static final RecordStatus NONE = RecordStatus.newStatusWithoutArrivalTime(false);

  /** How long a task without records overlooks that the next one waits for its turn. */
  private static final long LOOK_MS = 2_000;

  private static final int LOOK_EACH = 64; // records: a clock costs more than the rest of a look

  /** Makes the readers, on the executors. */
  static final class Factory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;

    private final ClientSettings settings;
    private final boolean isStream;
    private final boolean mayHoldBack;

    /** The last says whether what is not read now may be read by a later batch. */
    Factory(ClientSettings settings, boolean isStream, boolean mayHoldBack) {
      this.settings = settings;
      this.isStream = isStream;
      this.mayHoldBack = mayHoldBack;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition share) {
      return new SharedReader((TaskShare) share, settings, isStream, mayHoldBack);
    }
  }

  private final TaskShare share;
  private final boolean isStream;
  private final Turns turns; // null if the query reads alone
  private final SharedConsumer consumer;
  private final SourceOffsets starts;
  private final Object[] fields = new Object[8];
  private final GenericInternalRow row = new GenericInternalRow(fields);
  private boolean isSound = true;
  private boolean isClosed;
  private int asked;

  SharedReader(TaskShare share, ClientSettings settings, boolean isStream, boolean mayHoldBack) {
    this.share = share;
    this.isStream = isStream;
    turns = share.relay().isEmpty() ? null : Relay.turns(share);
    TaskContext task = TaskContext.get();
    boolean isSecond = task != null && PreserveTimestamps.isSecondAttempt(task);
    consumer =
        turns == null
            ? SharedConsumers.take(share, settings)
            : turns.take(share, settings, isSecond);
    starts = consumer.offsets();
    consumer.follow(Throttle.of(task));
    consumer.follow(mayHoldBack ? SchemaGate.of(task) : null);
    if (task != null) { // Spark 4.1 does not close the readers of Real-Time tasks
      task.addTaskCompletionListener((TaskCompletionListener) ended -> end());
    }
  }

  @Override
  public boolean next() {
    isSound = false;
    boolean found = fill(consumer.next());
    isSound = true;
    return found;
  }

  /** As Spark 4.1 has it, and third parties should (SPARK-58386); 4.2.0 has only the other one. */
  public RecordStatus nextWithTimeout(Long timeoutMs) {
    return nextWithTimeout(0L, timeoutMs);
  }

  @Override
  public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) {
    isSound = false;
    boolean found = fill(turns == null ? consumer.next(timeoutMs) : nextOfTurn(timeoutMs));
    isSound = true;
    return found ? RECORD : NONE;
  }

  /** The next record, unless this task's turn is over. */
  private ConsumerRecord<byte[], byte[]> nextOfTurn(long timeoutMs) {
    if (turns.isHurried() || (++asked % LOOK_EACH == 0 && turns.isDue())) {
      return null;
    }
    ConsumerRecord<byte[], byte[]> record = consumer.next(0); // what is fetched already
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    long left = timeoutMs;
    while (record == null && left > 0 && !turns.isDue()) {
      record = consumer.next(Math.min(left, LOOK_MS));
      left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
    }
    return record;
  }

  private boolean fill(ConsumerRecord<byte[], byte[]> record) {
    if (record == null) {
      return false;
    }
    FetchedPartition from = consumer.current();
    fields[0] = record.key();
    fields[1] = record.value();
    fields[2] = from.topic;
    fields[3] = from.number;
    fields[4] = record.offset();
    fields[5] = micros(record);
    fields[6] = record.timestampType().id;
    fields[7] = headers(record);
    return true;
  }

  private static long micros(ConsumerRecord<byte[], byte[]> record) {
    try {
      return Math.multiplyExact(record.timestamp(), 1000L);
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(
          "timestamp "
              + record.timestamp()
              + " of "
              + record.topic()
              + "-"
              + record.partition()
              + " overflows when converting to Spark's microsecond-precision",
          e);
    }
  }

  private static GenericArrayData headers(ConsumerRecord<byte[], byte[]> record) {
    List<Object> headers = null;
    for (Header header : record.headers()) {
      headers = headers == null ? new ArrayList<>() : headers;
      Object[] pair = {UTF8String.fromString(header.key()), header.value()};
      headers.add(new GenericInternalRow(pair));
    }
    return headers == null ? null : new GenericArrayData(headers.toArray());
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public PartitionOffset getOffset() {
    return new TaskOffsets(starts, consumer.offsets());
  }

  /** Ends the read, unless another task waits for its consumer: that has to wait for the sink. */
  @Override
  public void close() {
    if (turns == null) {
      end();
    }
  }

  private void end() {
    if (isClosed) {
      return;
    }
    isClosed = true;
    TaskContext task = TaskContext.get();
    boolean isKept =
        isStream && isSound && task != null && !task.isInterrupted() && !task.isFailed();
    if (turns != null) {
      turns.giveBack(isKept);
    } else if (isKept) {
      SharedConsumers.keep(share, consumer);
    } else { // in mid-record: nobody knows what it has passed on
      consumer.close();
    }
  }
}
