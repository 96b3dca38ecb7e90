package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import replication.producer.SchemaGate;
import replication.producer.SchemaIds;

/** What a task reads while the next record of some partition waits for the id of its schema. */
final class SchemaGateTest {
  private static final TopicPartition A = new TopicPartition("orders", 0);
  private static final TopicPartition B = new TopicPartition("orders", 1);
  private static final TopicPartition OTHER = new TopicPartition("clicks", 0);
  private static final String GENERATION = "A->B#7";
  private static int tests;

  private final String remote = "A.orders" + tests++; // whose ids no other test has told
  private final Client client = new Client();
  private final SharedConsumer consumer =
      new SharedConsumer(
          ClientSettings.of(new CaseInsensitiveStringMap(Map.of()), 1), unused -> client, () -> 0);

  /** A client whose logs have all records from the beginning. */
  private static final class Client extends MockConsumer<byte[], byte[]> {
    private final List<ConsumerRecord<byte[], byte[]>> logs = new ArrayList<>();

    private Client() {
      super(OffsetResetStrategy.NONE);
    }

    /** As Kafka's client: it fetches once more what it has handed out before. */
    @Override
    public synchronized void seek(TopicPartition tp, long offset) {
      super.seek(tp, offset);
      logs.stream()
          .filter(one -> one.partition() == tp.partition() && one.topic().equals(tp.topic()))
          .filter(one -> one.offset() >= offset)
          .forEach(super::addRecord);
    }

    @Override
    public synchronized void seek(TopicPartition tp, OffsetAndMetadata place) {
      seek(tp, place.offset());
    }

    /** As Kafka's client: a partition that is no longer assigned is not paused either. */
    @Override
    public synchronized void assign(Collection<TopicPartition> partitions) {
      resume(paused().stream().filter(tp -> !partitions.contains(tp)).toList());
      super.assign(partitions);
    }

    @Override
    public synchronized ConsumerRecords<byte[], byte[]> poll(Duration patience) {
      return super.poll(Duration.ZERO);
    }

    private void add(TopicPartition tp, long offset, byte[] key, byte[] value) {
      logs.add(new ConsumerRecord<>(tp.topic(), tp.partition(), offset, key, value));
      addRecord(logs.get(logs.size() - 1));
    }
  }

  private static byte[] framed(int id) {
    return ByteBuffer.allocate(6).put((byte) 0).putInt(id).array();
  }

  private void begin(TaskShare.Range... ranges) {
    String names = "copy," + remote + ":orders,A.clicks:,";
    consumer.follow(SchemaGate.of(names, "token\t" + GENERATION, "5"));
    consumer.begin(List.of(ranges));
  }

  private static TaskShare.Range range(TopicPartition tp, long from, long until) {
    return new TaskShare.Range(tp, from, until, null);
  }

  private void tell(String part, String pairs) {
    SchemaIds.obey(String.join("\t", "A->B", remote, part, pairs));
  }

  private static String report() {
    StringBuilder lines = new StringBuilder();
    SchemaIds.report(lines);
    return lines.toString();
  }

  private static String name(ConsumerRecord<byte[], byte[]> record) {
    return record == null ? "none" : record.topic() + record.partition() + ":" + record.offset();
  }

  @AfterEach
  void close() {
    consumer.close();
    assertEquals("", report(), "what is closed waits no longer");
    LeftOut.clear();
  }

  @Test
  void onlyThePartitionOfARecordWithANewSchemaWaits() {
    begin(
        range(A, 0, TaskShare.NO_END),
        range(B, 0, TaskShare.NO_END),
        range(OTHER, 0, TaskShare.NO_END));
    tell("value", "1=11");
    client.add(A, 0, null, framed(1));
    client.add(A, 1, framed(3), framed(2));
    client.add(A, 2, null, framed(1));
    client.add(B, 0, null, framed(1));
    client.add(B, 1, null, "plain".getBytes());
    client.add(OTHER, 0, null, framed(2)); // its records change on the way

    List<String> read = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      read.add(name(consumer.next(1_000)));
    }
    read.sort(null);
    assertEquals(List.of("clicks0:0", "orders0:0", "orders1:0", "orders1:1"), read);
    assertEquals("schema\tA->B\t" + remote + "\t0\t1\tvalue\t2\talone\n", waits());
    assertEquals(1, client.position(A), "nothing of it is kept");
    tell("value", "2=12");
    assertEquals("schema\tA->B\t" + remote + "\t0\t1\tkey\t3\talone\n", waits());
    tell("key", "3=13");
    assertEquals("orders0:1", name(consumer.next(1_000)));
    assertEquals("orders0:2", name(consumer.next(1_000)));
    assertFalse(SchemaIds.isAwaited());
  }

  /** What is reported while there is nothing else to read. */
  private String waits() {
    client.add(B, 100 + client.position(B), null, null);
    assertEquals(B.partition(), consumer.next(1_000).partition(), "the other one goes on");
    return report();
  }

  @Test
  void aBatchEndsBeforeARecordThatWaitsOnceTheDriverKnows() {
    begin(range(A, 0, 3), range(B, 0, 1));
    client.add(A, 0, null, framed(1));
    client.add(A, 1, null, framed(2));
    client.add(B, 0, null, null);
    tell("value", "1=11");
    assertTrue(Set.of("orders0:0", "orders1:0").contains(name(consumer.next())));
    assertTrue(Set.of("orders0:0", "orders1:0").contains(name(consumer.next())));

    Thread driver = new Thread(() -> answer("left\ttoken\t" + GENERATION));
    driver.start();
    assertNull(consumer.next(), "the end of the batch");

    begin(range(A, 1, 2));
    tell("value", "2=12");
    client.add(A, 1, null, framed(2)); // the mock's poll has forgotten it
    assertEquals("orders0:1", name(consumer.next()));
    assertNull(consumer.next());
  }

  /** Is the driver: takes reports up to the first one that has {@code words}. */
  private static void answer(String words) {
    while (!report().contains(words)) {
      SchemaIds.reported();
    }
    SchemaIds.reported();
  }

  @Test
  void whatIsBeyondTheBatchWaitsInTheNextOne() {
    begin(range(A, 0, 1));
    tell("value", "1=11");
    client.add(A, 0, null, framed(1));
    client.add(A, 1, null, framed(2));

    assertEquals("orders0:0", name(consumer.next()));
    assertNull(consumer.next());
    assertEquals("", report());
  }

  @Test
  void whatIsRefusedGoesToTheProducerWhichRefusesIt() {
    begin(range(A, 0, 2));
    client.add(A, 0, null, framed(2));
    client.add(A, 1, null, framed(2));
    Thread driver =
        new Thread(
            () -> {
              while (report().isEmpty()) {
                Thread.onSpinWait();
              }
              tell("value", "2=!");
            });
    begin(range(A, 0, TaskShare.NO_END));
    driver.start();
    ConsumerRecord<byte[], byte[]> record = null;
    while (record == null) {
      record = consumer.next(1_000_000);
    }
    assertEquals("orders0:0", name(record));
    assertNull(consumer.next(0), "the next one is asked for again");
  }

  @Test
  void whatABatchHasLeftOutGoesBackAndOnOnceItIsAnswered() {
    LeftOut.Stand stand = new LeftOut.Stand(40, "place", "record", "9");
    LeftOut.add(GENERATION, A, stand);

    assertEquals(Map.of(A, 40L), LeftOut.standing(GENERATION, Map.of(A, 60L, B, 1L)));
    assertTrue(LeftOut.goesBack(GENERATION, A, 40));
    assertFalse(LeftOut.goesBack(GENERATION, B, 1));
    assertEquals(List.of(stand), LeftOut.waiting("A->B#"));
    assertEquals(List.of(), LeftOut.waiting("A->C#"));
    LeftOut.answer("place", Set.of("8"));
    assertEquals(Map.of(A, 40L), LeftOut.standing(GENERATION, Map.of(A, 40L, B, 1L)));
    LeftOut.answer("place", Set.of("9"));
    assertEquals(List.of(), LeftOut.waiting("A->B#"));
    assertEquals(Map.of(A, 40L), LeftOut.standing(GENERATION, Map.of(A, 60L)), "first back");
    assertEquals(Map.of(), LeftOut.standing(GENERATION, Map.of(A, 40L)));
    assertFalse(LeftOut.goesBack(GENERATION, A, 40), "that is over");
  }
}
