package replication.source;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.collection.immutable.Map$;

/** A task's rows, and what becomes of its consumer when the task ends. */
final class SharedReaderTest {
  private static final TopicPartition TP = new TopicPartition("t", 0);
  private static final ClientSettings SETTINGS =
      ClientSettings.of(
          new CaseInsensitiveStringMap(Map.of("kafka.bootstrap.servers", "localhost:1")), 1);

  private final MockConsumer<byte[], byte[]> client =
      new MockConsumer<>(OffsetResetStrategy.EARLIEST);
  private final TaskShare share = share("");
  private final SharedConsumer consumer =
      new SharedConsumer(SETTINGS, of -> client, System::nanoTime);
  private TaskContextImpl task;

  private static TaskShare share(String relay) {
    Map<String, String> options = new HashMap<>();
    options.put(SharedSource.STARTS, "{\"t\":{\"0\":3}}");
    if (!relay.isEmpty()) {
      options.put(SharedSource.RELAY, relay);
      options.put(SharedSource.RELAY_BEGINS, "true");
    }
    SharedStream stream = new SharedStream(new CaseInsensitiveStringMap(options));
    InputPartition[] shares =
        relay.isEmpty()
            ? stream.planInputPartitions(
                SourceOffsets.of(Map.of(TP, 3L)), SourceOffsets.of(Map.of(TP, 5L)))
            : stream.planInputPartitions(SourceOffsets.of(Map.of(TP, 3L)));
    return (TaskShare) shares[0];
  }

  @BeforeEach
  void begin() {
    begin(0);
    client.updateBeginningOffsets(Map.of(TP, 0L));
    client.updateEndOffsets(Map.of(TP, 5L));
    SharedConsumers.keep(share, consumer); // as a batch before has left it
  }

  private void begin(int attempt) {
    task =
        new TaskContextImpl(
            0, 0, 0, 7, attempt, 1, null, new Properties(), null, null, 1, Map$.MODULE$.empty());
    TaskContext$.MODULE$.setTaskContext(task);
  }

  @AfterEach
  void end() {
    TaskContext$.MODULE$.unset();
    SharedConsumers.closeAll();
  }

  private SharedReader reader(boolean isStream) {
    SharedReader reader =
        (SharedReader) new SharedReader.Factory(SETTINGS, isStream, true).createReader(share);
    for (long offset = 3; offset < 5; offset++) {
      RecordHeaders headers = new RecordHeaders();
      headers.add("name", new byte[] {9});
      headers.add("none", null);
      client.addRecord(
          new ConsumerRecord<>(
              "t",
              0,
              offset,
              1_000 + offset,
              TimestampType.LOG_APPEND_TIME,
              1,
              1,
              new byte[] {1},
              new byte[] {(byte) offset},
              offset == 3 ? headers : new RecordHeaders(),
              Optional.empty()));
    }
    return reader;
  }

  /** The consumer that the next batch of the share gets; this one if it was kept. */
  private boolean isKept() {
    return !client.closed() && SharedConsumers.take(share, SETTINGS) == consumer;
  }

  @Test
  void aRowHasAllOfARecord() {
    SharedReader reader = reader(true);
    assertTrue(reader.next());
    InternalRow row = reader.get();

    assertArrayEquals(new byte[] {1}, row.getBinary(0));
    assertArrayEquals(new byte[] {3}, row.getBinary(1));
    assertEquals("t", row.getUTF8String(2).toString());
    assertEquals(0, row.getInt(3));
    assertEquals(3, row.getLong(4));
    assertEquals(1_003_000, row.getLong(5));
    assertEquals(TimestampType.LOG_APPEND_TIME.id, row.getInt(6));
    assertEquals(2, row.getArray(7).numElements());
    assertEquals("name", row.getArray(7).getStruct(0, 2).getString(0));
    assertTrue(row.getArray(7).getStruct(1, 2).isNullAt(1));
    assertTrue(reader.next());
    assertTrue(reader.get().isNullAt(7), "no headers");
    assertFalse(reader.next());
  }

  @Test
  void aTaskSaysWhereItBeganAndHowFarItCame() {
    SharedReader reader = reader(true);
    reader.next();
    TaskOffsets offsets = (TaskOffsets) reader.getOffset();

    assertEquals("{\"t\":{\"0\":3}}", offsets.from().json());
    assertEquals("{\"t\":{\"0\":4}}", offsets.until().json());
  }

  @Test
  void aTaskThatEndedWellLeavesItsConsumerToTheNextBatch() {
    SharedReader reader = reader(true);
    while (reader.next()) {}
    reader.close();
    task.markTaskCompleted(Option.empty());

    assertTrue(isKept());
  }

  @Test
  void aBatchThatIsReadOnceLeavesNone() {
    SharedReader reader = reader(false);
    reader.next();
    reader.close();

    assertTrue(client.closed());
  }

  @Test
  void inMidRecordNobodyKnowsWhatWasPassedOn() {
    SharedReader reader = reader(true);
    client.setPollException(new KafkaException("the record cannot be read"));
    assertThrows(KafkaException.class, reader::next);
    reader.close();

    assertTrue(client.closed());
  }

  @Test
  void ofATaskThatWasInterruptedNobodyGoesOn() {
    SharedReader reader = reader(true);
    reader.next();
    task.markInterrupted("stopped");
    reader.close();
    assertTrue(client.closed());
  }

  @Test
  void ofATaskThatFailedNobodyGoesOn() {
    SharedReader reader = reader(true);
    reader.next();
    task.markTaskFailed(new IllegalStateException("the sink"));
    reader.close();

    assertTrue(client.closed());
  }

  @Test
  void aReaderThatSparkDoesNotCloseEndsWithItsTask() {
    reader(true);
    task.markTaskCompleted(Option.empty());

    assertTrue(isKept());
  }

  @Test
  void aRealTimeTaskWithoutARecordSaysSo() {
    SharedReader reader = reader(true);
    assertTrue(has(reader.nextWithTimeout(50L)));
    assertTrue(has(reader.nextWithTimeout(0L, 50L)));
    assertFalse(has(reader.nextWithTimeout(50L)));
  }

  private static boolean has(SupportsRealTimeRead.RecordStatus status) {
    return status.hasRecord();
  }

  @Test
  void aSecondAttemptHasNoTurn() {
    TaskShare inTurn = share("relay of the reader's test");
    begin(1);
    SharedReader.Factory readers = new SharedReader.Factory(SETTINGS, true, true);

    Exception refused =
        assertThrows(IllegalStateException.class, () -> readers.createReader(inTurn));
    assertEquals("a second attempt of a task has no turn", refused.getMessage());
  }

  @Test
  void theNextTaskHasItsTurnOnceTheSinkHasFlushedAndNotAtTheEndOfTheRead() throws Exception {
    TaskShare inTurn = share("relay of the reader's other test");
    SharedReader.Factory readers = new SharedReader.Factory(SETTINGS, true, true);
    SharedReader reader = (SharedReader) readers.createReader(inTurn);
    Thread next = new Thread(() -> readers.createReader(inTurn));
    next.start();
    reader.close();
    next.join(300); // it would end at once
    assertTrue(next.isAlive(), "records of two queries would reach the target side by side");

    task.markTaskCompleted(Option.empty());
    next.join();
  }
}
