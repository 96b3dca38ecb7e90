package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import replication.producer.PreserveTimestamps;
import replication.producer.Throttle;

/** What a task gets of the partitions that share its consumer. */
final class SharedConsumerTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final String FLOW = "of->this test";

  private final Logs logs = new Logs();
  private final List<Client> clients = new ArrayList<>();
  private final List<ClientSettings> asked = new ArrayList<>();
  private int most = Integer.MAX_VALUE; // records of a partition in a poll of each client
  private int width = Integer.MAX_VALUE; // partitions in a poll
  private long fetchedBytes;
  private Runnable whenIdle = () -> {}; // a poll finds nothing
  private long now;
  private SharedConsumer consumer = shared(Map.of());

  /** The offsets of the records of each partition, and where the partition ends. */
  private static final class Logs {
    private final Map<TopicPartition, TreeMap<Long, Integer>> sizes = new HashMap<>();
    private final Map<TopicPartition, Long> ends = new HashMap<>();

    private void add(TopicPartition tp, int size, long... offsets) {
      for (long offset : offsets) {
        sizes.computeIfAbsent(tp, any -> new TreeMap<>()).put(offset, size);
        ends.merge(tp, offset + 1, Math::max);
      }
    }
  }

  /** A client that is given some records of its partitions with each poll. */
  private final class Client extends MockConsumer<byte[], byte[]> {
    private final Map<TopicPartition, Long> positions = new HashMap<>();
    private final Set<TopicPartition> turns = new LinkedHashSet<>(); // the last one had its last
    private final List<TopicPartition> seeks = new ArrayList<>();
    private final List<Integer> epochs = new ArrayList<>(); // of the seeks
    private final List<Duration> waits = new ArrayList<>();
    private final List<TopicPartition> awaited = new ArrayList<>(); // until its leader knows them
    private boolean isWoken;
    private KafkaException trouble;
    private final PollBudget budget;

    private Client(ClientSettings settings) {
      super(OffsetResetStrategy.NONE);
      budget = new PollBudget(settings.polledBytes(), "");
    }

    /** As Kafka's client: a partition that is no longer assigned is not paused either. */
    @Override
    public synchronized void assign(Collection<TopicPartition> partitions) {
      resume(paused().stream().filter(tp -> !partitions.contains(tp)).toList());
      super.assign(partitions);
    }

    @Override
    public synchronized void seek(TopicPartition tp, long offset) {
      super.seek(tp, offset);
      seeks.add(tp);
      positions.put(tp, offset);
    }

    @Override
    public synchronized void seek(TopicPartition tp, OffsetAndMetadata place) {
      seek(tp, place.offset());
      epochs.add(place.leaderEpoch().orElse(null));
    }

    @Override
    public synchronized long position(TopicPartition tp, Duration patience) {
      if (patience.toNanos() > 0 && waits.isEmpty()) {
        awaited.add(tp);
      }
      return positions.get(tp);
    }

    @Override
    public synchronized Map<TopicPartition, Long> endOffsets(
        Collection<TopicPartition> partitions, Duration patience) {
      return Map.of();
    }

    @Override
    public void wakeup() { // any thread's, while another one polls
      isWoken = true;
    }

    @Override
    public synchronized ConsumerRecords<byte[], byte[]> poll(Duration patience) {
      waits.add(patience);
      now += patience.toNanos();
      if (isWoken) {
        isWoken = false;
        throw new WakeupException();
      }
      Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
      Set<TopicPartition> wanted = new HashSet<>(assignment());
      wanted.removeAll(paused());
      turns.addAll(wanted);
      for (TopicPartition tp : List.copyOf(turns)) {
        List<ConsumerRecord<byte[], byte[]>> records =
            wanted.contains(tp) && found.size() < width ? fetch(tp) : List.of();
        if (!records.isEmpty()) {
          found.put(tp, records);
          turns.remove(tp);
          turns.add(tp);
          fetchedBytes += records.stream().mapToInt(ConsumerRecord::serializedValueSize).sum();
        }
      }
      if (found.isEmpty()) {
        whenIdle.run();
      }
      if (found.isEmpty() && trouble != null) {
        throw trouble;
      }
      budget.begin();
      found.values().forEach(of -> of.forEach(one -> budget.add(one.serializedValueSize())));
      return new ConsumerRecords<>(found);
    }

    private List<ConsumerRecord<byte[], byte[]>> fetch(TopicPartition tp) {
      List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
      TreeMap<Long, Integer> sizes = logs.sizes.getOrDefault(tp, new TreeMap<>());
      Map.Entry<Long, Integer> next = sizes.ceilingEntry(positions.get(tp));
      while (next != null && records.size() < most) {
        records.add(record(tp, next.getKey(), next.getValue()));
        next = sizes.higherEntry(next.getKey());
      }
      long last = records.isEmpty() ? 0 : records.get(records.size() - 1).offset() + 1;
      long end = next == null ? logs.ends.getOrDefault(tp, 0L) : last;
      positions.merge(tp, end, Math::max);
      return records;
    }
  }

  private Integer epoch; // of the leader that has appended the records

  private ConsumerRecord<byte[], byte[]> record(TopicPartition tp, long offset, int size) {
    return new ConsumerRecord<>(
        tp.topic(),
        tp.partition(),
        offset,
        0,
        TimestampType.CREATE_TIME,
        -1,
        size,
        null,
        new byte[0],
        new RecordHeaders(),
        java.util.Optional.ofNullable(epoch));
  }

  private SharedConsumer shared(Map<String, String> options) {
    ClientSettings settings = ClientSettings.of(new CaseInsensitiveStringMap(options), 1);
    return new SharedConsumer(
        settings,
        of -> {
          asked.add(of);
          clients.add(new Client(of));
          return client();
        },
        () -> now);
  }

  private Client client() {
    return clients.get(clients.size() - 1);
  }

  private static TaskShare.Range range(TopicPartition tp, long from, long until) {
    return new TaskShare.Range(tp, from, until, null);
  }

  /** The records of a batch up to its end, as {@code partition:offset}. */
  private List<String> batch(TaskShare.Range... ranges) {
    consumer.begin(List.of(ranges));
    List<String> read = new ArrayList<>();
    ConsumerRecord<byte[], byte[]> record;
    while ((record = consumer.next()) != null) {
      read.add(record.partition() + ":" + record.offset());
      assertEquals(record.partition(), consumer.current().number, "whose record that is");
    }
    read.sort(null);
    return read;
  }

  @Test
  void eachSeekTellsTheClientWhichLeaderHadTheRecordBefore() {
    consumer = shared(Map.of("flow", FLOW));
    epoch = 7;
    most = 1;
    logs.add(A, 1, 0, 1, 2, 3);
    consumer.begin(List.of(new TaskShare.Range(A, 0, TaskShare.NO_END, 5)));
    assertEquals(List.of(5), client().epochs, "as the driver knows it");
    assertEquals(List.of(A), client().awaited, "or idle partitions were fetched without it");

    assertEquals(0, consumer.next(10).offset());
    try {
      PausedPartitions.set(Map.of(FLOW, Set.of(A)));
      assertNull(consumer.next(10));
      assertEquals(List.of(5, 7), client().epochs, "after the first record");
      assertEquals(Map.of(A, 7), consumer.offsets().epochs(), "for the next batch");
      PausedPartitions.set(Map.of());
      epoch = null; // of a broker that says none
      assertEquals(1, consumer.next(10).offset());
      PausedPartitions.set(Map.of(FLOW, Set.of(A)));
      assertNull(consumer.next(10));
      assertEquals(Arrays.asList(5, 7, null), client().epochs, "an unknown one is none");
      assertEquals(Map.of(), consumer.offsets().epochs());
    } finally {
      PausedPartitions.set(Map.of());
    }
  }

  @Test
  void whereABatchEndsBehindItsLastRecordNobodyKnowsTheLeader() {
    epoch = 7;
    logs.add(A, 1, 0, 1);
    logs.ends.put(A, 5L); // markers of a later leader
    assertEquals(List.of("0:0", "0:1"), batch(range(A, 0, 5)));

    assertEquals(Map.of(), consumer.offsets().epochs());
  }

  @Test
  void whatWasFetchedBeyondABatchIsOfTheNextOne() {
    logs.add(A, 1, 0, 1, 2, 3, 4);

    assertEquals(List.of("0:0", "0:1"), batch(range(A, 0, 2)));
    logs.sizes.clear(); // so that nothing can be fetched again
    assertEquals(List.of("0:2", "0:3"), batch(range(A, 2, 4)));
    assertEquals(List.of(A), client().seeks);
  }

  @Test
  void aBatchEndsInAGapThatCompactionHasLeft() {
    logs.add(A, 1, 0, 1, 6);

    assertEquals(List.of("0:0", "0:1"), batch(range(A, 0, 4)));
    assertEquals(List.of("0:6"), batch(range(A, 4, 7)));
    assertEquals(List.of(A), client().seeks);
  }

  @Test
  void aBatchEndsAtMarkersOfTransactions() {
    logs.add(A, 1, 0, 1);
    logs.ends.put(A, 3L);
    logs.ends.put(B, 2L); // has nothing but markers

    assertEquals(List.of("0:0", "0:1"), batch(range(A, 0, 3), range(B, 0, 2)));
    logs.add(A, 1, 3);
    assertEquals(List.of("0:3"), batch(range(A, 3, 4)));
  }

  @Test
  void aPartitionThatHasFinishedIsPausedUntilTheNextBatch() {
    logs.add(A, 1, 0, 1, 2);
    logs.add(B, 1, 0, 1, 2, 3, 4, 5);
    most = 2;
    consumer.begin(List.of(range(A, 0, 1), range(B, 0, 6)));
    for (int record = 0; record < 6; record++) {
      consumer.next();
    }

    assertTrue(client().paused().contains(A), "the client would fetch it on and on");
    while (consumer.next() != null) {}
    assertEquals(List.of("0:1", "0:2"), batch(range(A, 1, 3)));
    assertEquals(1, client().seeks.stream().filter(A::equals).count());
  }

  @Test
  void aBatchThatBeginsElsewhereSeeks() {
    logs.add(A, 1, 0, 1, 2, 3, 4);

    assertEquals(List.of("0:0", "0:1"), batch(range(A, 0, 2)));
    assertEquals(List.of("0:1"), batch(range(A, 1, 2)));
    assertEquals(List.of("0:4"), batch(range(A, 4, 5)));
  }

  @Test
  void anOffsetOutOfRangeIsALossOfThatPartition() {
    logs.add(A, 1, 0);
    client().trouble = new OffsetOutOfRangeException("out of range: t-1", Map.of(B, 5L));
    consumer.begin(List.of(range(A, 0, 1), range(B, 5, 9)));

    assertEquals(0, consumer.next().offset(), "others come first");
    Exception loss = assertThrows(IllegalStateException.class, () -> consumer.next());
    assertEquals("KAFKA_DATA_LOSS: out of range: t-1", loss.getMessage());
  }

  @Test
  void theRecordsOfOthersComeBeforeThoseThatCannotBeRead() {
    logs.add(A, 1, 0, 1);
    client().trouble = new KafkaException("Received exception when fetching the next record");
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END), range(B, 0, TaskShare.NO_END)));

    assertEquals(0, consumer.next(100).offset());
    assertEquals(1, consumer.next(100).offset());
    assertThrows(KafkaException.class, () -> consumer.next(100));
    assertEquals("{\"t\":{\"0\":2,\"1\":0}}", consumer.offsets().json());
  }

  @Test
  void aBatchWithoutEndWaitsForRecords() {
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END)));
    assertNull(consumer.next(100));
    assertEquals(TimeUnit.MILLISECONDS.toNanos(100), now, "how long it waited");

    logs.add(A, 1, 0);
    assertEquals(0, consumer.next(100).offset());
    assertEquals("{\"t\":{\"0\":1}}", consumer.offsets().json());
  }

  @Test
  void aWaitForRecordsIsOneOfTheClientUntilSomebodyEndsIt() {
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END)));
    assertNull(consumer.next(5_000));
    assertEquals(List.of(Duration.ofSeconds(5)), client().waits);

    consumer.wakeUp();
    assertNull(consumer.next(60_000));
    assertEquals(2, client().waits.size(), "the wait ends with the wake-up");
    logs.add(A, 1, 0);
    assertEquals(0, consumer.next(60_000).offset());
  }

  @Test
  void aTopicThatIsDeletedUnderABatchIsNamedSoon() {
    logs.add(A, 1, 0);
    client().updatePartitions("t", List.of(new PartitionInfo("t", 0, Node.noNode(), null, null)));
    consumer.begin(List.of(range(A, 0, 1), range(B, 0, 9)));

    assertEquals(0, consumer.next().offset());
    Exception loss = assertThrows(IllegalStateException.class, () -> consumer.next());
    assertEquals("KAFKA_DATA_LOSS: deleted while a batch reads them: [t-1]", loss.getMessage());
    assertTrue(now < TimeUnit.SECONDS.toNanos(10), "after " + now + " ns");
  }

  @Test
  void aPartitionThatStaysSilentIsATimeout() {
    client().updatePartitions("t", List.of(new PartitionInfo("t", 0, null, null, null)));
    consumer.begin(List.of(range(A, 3, 9)));

    Exception silent = assertThrows(TimeoutException.class, () -> consumer.next());
    assertEquals(
        "no record came within 120000 ms of 1 partitions, such as t-0 at 3", silent.getMessage());
  }

  @Test
  void moreRecordsThanPlannedMakeTheFetchesSmaller() {
    long[] offsets = java.util.stream.LongStream.range(0, 150_000).toArray();
    logs.add(A, 1, offsets);
    most = 100_000; // as max.poll.records has it

    assertEquals(150_000, batch(range(A, 0, 150_000)).size());
    assertEquals(2, clients.size(), "clients");
    assertTrue(clients.get(0).closed());
    assertEquals(asked.get(0).partitionBytes() / 4, asked.get(1).partitionBytes());
  }

  @Test
  void whereASingleBatchHasMoreRecordsThanPlannedAPollTakesMoreOfThem() {
    asked.clear();
    consumer = shared(Map.of("kafka.fetch.max.bytes", "16384"));
    logs.add(A, 1, LongStream.range(0, 150_000).toArray());
    most = 100_000; // as max.poll.records has it

    assertEquals(150_000, batch(range(A, 0, 150_000)).size());
    assertEquals(List.of(100_000L, 400_000L), polls());
    assertEquals(asked.get(0).partitionBytes(), asked.get(1).partitionBytes());
  }

  private List<Long> polls() {
    return asked.stream().map(ClientSettings::polledRecords).toList();
  }

  @Test
  void recordsThatExpandMakeTheFetchesSmaller() {
    asked.clear();
    consumer = shared(Map.of("kafka.fetch.max.bytes", "1048576"));
    logs.add(A, 2_000_000, LongStream.range(0, 60).toArray());
    most = 40; // 80 MB of a task that may have 64 MiB

    assertEquals(60, batch(range(A, 0, 60)).size());
    long share = asked.get(0).mostBytes();
    assertEquals(
        List.of(share, share, share, share, 4 * share), // a single batch has all of them
        asked.stream().map(ClientSettings::polledBytes).toList());
    assertEquals(16_384, asked.get(3).partitionBytes());
    consumer.close();
    assertTrue(clients.stream().skip(1).allMatch(MockConsumer::closed));
  }

  @Test
  void fewLargeRecordsAreNoReasonForSmallerFetches() {
    asked.clear();
    consumer = shared(Map.of("kafka.fetch.max.bytes", "1048576"));
    logs.add(A, 10_000_000, LongStream.range(0, 20).toArray());

    assertEquals(20, batch(range(A, 0, 20)).size());
    assertEquals(1, asked.size(), "clients");
  }

  @Test
  void fetchesBecomeLargerAgainOnceRecordsAreSmallForLong() {
    asked.clear();
    consumer = shared(Map.of("kafka.fetch.max.bytes", "1048576"));
    logs.add(A, 2_000_000, LongStream.range(0, 40).toArray()); // 80 MB of 64 MiB
    logs.add(A, 100, LongStream.range(40, 200_000).toArray());
    most = 40;
    epoch = 7;
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END)));
    for (int record = 0; record < 200_000; record++) {
      assertEquals(record, consumer.next(60_000).offset());
    }

    List<Long> sizes = asked.stream().map(settings -> settings.partitionBytes() / 1024).toList();
    assertEquals(List.of(1024L, 256L, 64L, 16L, 16L, 64L, 256L, 1024L), sizes);
    assertEquals(asked.get(0).polledBytes(), asked.get(5).polledBytes(), "and so is the budget");
    logs.add(A, 2_000_000, LongStream.range(200_000, 200_040).toArray());
    logs.add(A, 100, LongStream.range(200_040, 260_000).toArray());
    for (int record = 200_000; record < 260_000; record++) {
      assertEquals(record, consumer.next(60_000).offset());
    }
    assertEquals(12, asked.size(), "they are smaller again, and for longer");
    assertEquals(List.of(7), client().epochs, "each new client is told the last record's leader");
    assertEquals(List.of(A), client().awaited);
  }

  @Test
  void whatIsKeptBeyondABatchHasALimit() {
    List<TaskShare.Range> first = new ArrayList<>();
    List<TaskShare.Range> second = new ArrayList<>();
    for (int partition = 0; partition < 100; partition++) {
      TopicPartition tp = new TopicPartition("many", partition);
      logs.add(tp, 500_000, 0, 1, 2, 3);
      first.add(range(tp, 0, 1));
      second.add(range(tp, 1, 4));
    }
    most = 2;

    assertEquals(100, batch(first.toArray(new TaskShare.Range[0])).size());
    client().seeks.clear();
    assertEquals(300, batch(second.toArray(new TaskShare.Range[0])).size());
    assertFalse(client().seeks.isEmpty(), "what was dropped is fetched again");
    assertTrue(client().seeks.size() < 100, "but not what was kept");
  }

  /** Whether the topics have used up a limit of their own, for days. */
  private static void useUp(String... topics) {
    Throttle.obey(FLOW + "\t0\t"); // what they had is over
    StringJoiner limits = new StringJoiner(";");
    for (String topic : topics) {
      limits.add("1000.0,-1.0,A." + topic + ":" + topic);
    }
    Throttle.obey(FLOW + "\t1\t" + limits);
    for (String topic : topics) {
      take(topic);
    }
  }

  /** Takes what its limit lets through in days. */
  private static void take(String topic) {
    try {
      Throttle.of(FLOW).take("A." + topic, 1_000_000_000);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void aTopicThatHasUsedUpItsLimitHoldsUpNoOther() {
    TopicPartition slow = new TopicPartition("slow", 0);
    logs.add(slow, 1, 0, 1, 2);
    logs.add(A, 1, 0, 1, 2, 3, 4, 5);
    most = 2;
    useUp("slow");
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(List.of(range(slow, 0, 3), range(A, 0, 6)));
    for (int record = 0; record < 6; record++) {
      assertEquals(A.topic(), consumer.next().topic(), "of which topic");
    }
    assertTrue(client().paused().contains(slow), "the client would hand out what follows");
    StringBuilder waiting = new StringBuilder();
    Throttle.reportAll(waiting);
    useUp();

    for (int record = 0; record < 3; record++) {
      assertEquals(record, consumer.next().offset());
    }
    assertNull(consumer.next(), "the batch is over");
    assertNotEquals("0", waiting.toString().split(",")[4], "nanoseconds for which it has waited");
  }

  private static final String SLOW = "slow";

  /** A backlog of 1 MB in each partition of one topic, of which a fetch has four. */
  private List<TaskShare.Range> backlog(int partitions) {
    List<TaskShare.Range> ranges = new ArrayList<>();
    for (int number = 0; number < partitions; number++) {
      TopicPartition tp = new TopicPartition(SLOW, number);
      logs.add(tp, 250_000, 0, 1, 2, 3);
      ranges.add(range(tp, 0, TaskShare.NO_END));
    }
    width = 4;
    return ranges;
  }

  /** What is fetched and not passed on. */
  private long keptBytes() {
    Map<TopicPartition, Long> passed = consumer.offsets().map();
    long kept = 0;
    for (Map.Entry<TopicPartition, Long> position : client().positions.entrySet()) {
      long from = passed.get(position.getKey());
      kept += (position.getValue() - from) * 250_000;
    }
    return kept;
  }

  /** Sets the rate of the limit that there is: none, or one that is used up for days. */
  private static void setSlow(boolean isUsedUp) {
    Throttle.obey(FLOW + "\t1\t-1.0,-1.0");
    if (isUsedUp) {
      Throttle.obey(FLOW + "\t1\t1000.0,-1.0");
      take(SLOW);
    }
  }

  @Test
  void whatIsHeldUpIsFetchedAgainUnderTheLeaderOfTheLastRecordThatIsKept() {
    TopicPartition slow = new TopicPartition(SLOW, 0);
    int size = (int) (asked.get(0).mostBytes() / 10);
    logs.add(slow, size, LongStream.range(0, 20).toArray()); // half of which may be kept
    epoch = 7;
    useUp(SLOW);
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(List.of(new TaskShare.Range(slow, 0, TaskShare.NO_END, 5)));

    assertNull(consumer.next(100));
    assertEquals(List.of(5, 7), client().epochs);
    assertEquals(Map.of(slow, 5), consumer.offsets().epochs(), "none of them was passed on");
    useUp();
  }

  @Test
  void whatManyLimitedPartitionsKeepHasALimit() {
    useUp(SLOW);
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(backlog(5_000));
    assertNull(consumer.next(TimeUnit.MINUTES.toMillis(1)));

    assertEquals(1, clients.size(), "clients");
    assertTrue(keptBytes() > asked.get(0).mostBytes() / 2, keptBytes() + " bytes are kept");
    assertTrue(keptBytes() <= asked.get(0).mostBytes(), keptBytes() + " bytes are kept");
    assertTrue(fetchedBytes < 2 * asked.get(0).mostBytes(), fetchedBytes + " bytes are fetched");
    useUp();
    Map<Integer, Long> next = new HashMap<>();
    for (int record = 0; record < 20_000; record++) {
      ConsumerRecord<byte[], byte[]> one = consumer.next(20);
      assertEquals(next.merge(one.partition(), 1L, Long::sum) - 1, one.offset());
    }
    assertNull(consumer.next(20));
  }

  @Test
  void whatALimitLetsThroughNowAndThenIsNotFetchedManyTimes() {
    useUp(SLOW);
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(backlog(200));
    Map<Integer, Long> next = new HashMap<>();
    for (int record = 0; record < 800; record++) {
      setSlow(true);
      assertNull(consumer.next(20));
      assertTrue(keptBytes() <= asked.get(0).mostBytes(), keptBytes() + " bytes are kept");
      setSlow(false);
      ConsumerRecord<byte[], byte[]> one = consumer.next(20);
      assertEquals(next.merge(one.partition(), 1L, Long::sum) - 1, one.offset());
    }

    useUp();
    assertNull(consumer.next(20));
    assertTrue(fetchedBytes < 400_000_000, fetchedBytes + " bytes of 200 MB are fetched");
  }

  @Test
  void whatHasPassedAllOfItsBatchIsNotHeldUp() {
    TopicPartition slow = new TopicPartition(SLOW, 0);
    logs.add(slow, 1, 0, 1);
    List<TaskShare.Range> ranges = new ArrayList<>(List.of(range(slow, 0, 1)));
    for (int number = 0; number < 100; number++) {
      ranges.add(range(new TopicPartition("many", number), 0, 1));
    }
    useUp();
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(ranges);
    assertEquals(SLOW, consumer.next().topic());
    useUp(SLOW);
    whenIdle =
        () -> {
          for (int number = 0; number < 100; number++) { // more than may be kept
            logs.add(new TopicPartition("many", number), 500_000, 0, 1, 2);
          }
        };
    most = 3;
    width = 10;
    for (int record = 0; record < 100; record++) {
      assertEquals("many", consumer.next().topic());
      if (record == 80) {
        useUp();
      }
    }
    assertNull(consumer.next());
  }

  @Test
  void whatIsPausedWhileItIsHeldUpStaysSoWhenItsLimitEnds() {
    TopicPartition slow = new TopicPartition("slow", 0);
    consumer = shared(Map.of("flow", FLOW));
    logs.add(slow, 1, 0, 1, 2);
    useUp("slow");
    consumer.follow(Throttle.of(FLOW));
    consumer.begin(List.of(range(slow, 0, TaskShare.NO_END)));
    assertNull(consumer.next(20), "its limit is used up");
    PausedPartitions.set(Map.of(FLOW, Set.of(slow)));
    assertNull(consumer.next(20), "and it is paused");
    useUp();
    assertNull(consumer.next(20), "it is paused still");
    PausedPartitions.set(Map.of());

    for (int record = 0; record < 3; record++) {
      assertEquals(record, consumer.next(20).offset());
    }
  }

  @Test
  void whateverIsHeldUpEachRecordComesOnceAndInOrder() {
    consumer.follow(Throttle.of(FLOW));
    for (int seed = 0; seed < 100; seed++) {
      Random random = new Random(seed);
      logs.sizes.clear();
      logs.ends.clear();
      int size = seed % 2 == 0 ? 1 : 4_000_000; // with which not all may be kept
      consumer.begin(List.of());
      List<TaskShare.Range> ranges = new ArrayList<>();
      Map<TopicPartition, Long> next = new HashMap<>();
      for (String topic : List.of("a", "b", "c")) {
        for (int number = 0; number < 2; number++) {
          TopicPartition tp = new TopicPartition(topic, number);
          logs.add(tp, size, LongStream.range(0, 20).toArray());
          ranges.add(range(tp, 0, TaskShare.NO_END));
          next.put(tp, 0L);
        }
      }
      most = 1 + random.nextInt(5);
      consumer.begin(ranges);
      int left = 120;
      while (left > 0) {
        if (random.nextInt(5) == 0) {
          useUp(Stream.of("a", "b", "c").filter(t -> random.nextBoolean()).toArray(String[]::new));
        }
        ConsumerRecord<byte[], byte[]> record = consumer.next(20);
        if (record != null) {
          TopicPartition tp = new TopicPartition(record.topic(), record.partition());
          assertEquals(next.put(tp, record.offset() + 1), record.offset(), tp + " of " + seed);
          left--;
        }
      }
      next.replaceAll((tp, offset) -> 20L);
      assertEquals(SourceOffsets.of(next).json(), consumer.offsets().json());
    }
    useUp();
  }

  /** Passes records on to a target that answers when a test says so. */
  private static final class Sink implements AutoCloseable {
    private final PreserveTimestamps producer = new PreserveTimestamps();
    private final Map<TopicPartition, Boolean> isAnswered = new HashMap<>();

    private Sink() {
      producer.configure(Map.of());
    }

    /** Sends a record, as a task does before it asks for the next one; gives its partition. */
    private TopicPartition send(ConsumerRecord<byte[], byte[]> record) {
      TopicPartition tp = new TopicPartition(record.topic(), record.partition());
      assertNotEquals(false, isAnswered.putIfAbsent(tp, false), "the thread would wait here");
      byte[] carrier =
          ByteBuffer.allocate(20).putInt(0x8f6f7267).putLong(1).putLong(record.offset()).array();
      String topic = "A." + record.topic();
      ProducerRecord<byte[], byte[]> sent =
          producer.onSend(new ProducerRecord<>(topic, record.partition(), carrier, new byte[0]));
      assertEquals(topic, sent.topic(), "it is sent");
      return tp;
    }

    private void answer(TopicPartition tp, Exception failure) {
      isAnswered.put(tp, true);
      TopicPartition remote = new TopicPartition("A." + tp.topic(), tp.partition());
      producer.onAcknowledgement(new RecordMetadata(remote, 0, 0, 1, 0, 0), failure);
    }

    @Override
    public void close() {
      Set<TopicPartition> all = Set.copyOf(isAnswered.keySet());
      all.stream().filter(tp -> !isAnswered.get(tp)).forEach(tp -> answer(tp, null));
      producer.close();
    }
  }

  @Test
  void aPartitionStandsUntilItsFirstRecordIsAnsweredAndHoldsUpNoOther() {
    logs.add(A, 1, 0, 1, 2);
    logs.add(B, 1, 0, 1, 2);
    for (Exception failure : new Exception[] {null, new KafkaException("lost")}) {
      for (long end : new long[] {3, TaskShare.NO_END}) {
        try (Sink sink = new Sink()) {
          consumer = shared(Map.of());
          consumer.begin(List.of(range(A, 0, end), range(B, 0, end)));
          TopicPartition first = sink.send(consumer.next(100));
          TopicPartition second = sink.send(consumer.next(100));
          assertNotEquals(first, second, "the first one is not answered");
          assertNull(consumer.next(100), "each has one in flight");
          assertEquals(Set.of(A, B), client().paused(), "the client would hand out what follows");

          sink.answer(second, failure);
          assertEquals(1, consumer.next(100).offset(), "it goes on");
          assertEquals(2, consumer.next(100).offset());
          assertEquals(2, ended(second), "and the other one stands still");
          whenIdle = () -> sink.answer(first, failure);
          assertEquals(1, (end == 3 ? consumer.next() : consumer.next(100)).offset());
          assertEquals(2, (end == 3 ? consumer.next() : consumer.next(100)).offset());
          assertNull(end == 3 ? consumer.next() : consumer.next(100));
          whenIdle = () -> {};
        }
      }
    }
  }

  /**
   * Without a partition that stands, a fetch would be for others alone: it lasts, and holds it up.
   */
  @Test
  void theClientIsNotAskedWhileAFirstAnswerMayComeSoon() throws InterruptedException {
    logs.add(A, 1, 0, 1);
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END), range(B, 0, TaskShare.NO_END)));
    try (Sink sink = new Sink()) {
      sink.send(consumer.next(100));
      long polled = now;
      Thread task = Thread.currentThread();
      Thread target =
          new Thread(
              () -> {
                while (task.getState() != Thread.State.TIMED_WAITING) {
                  Thread.onSpinWait();
                }
                sink.answer(A, null);
              });
      target.start();
      assertEquals(1, consumer.next(100).offset());
      target.join();
      assertEquals(polled, now, "the client was asked");
      assertEquals(Set.of(), client().paused());
    }
  }

  /** The offset of the last record of a partition that was passed on. */
  private long ended(TopicPartition tp) {
    return next(tp) - 1;
  }

  @Test
  void whatComesLaterOfAPartitionStandsToo() {
    logs.add(A, 1, 0);
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END), range(B, 0, TaskShare.NO_END)));
    try (Sink sink = new Sink()) {
      sink.send(consumer.next(100));
      logs.add(B, 1, 0);
      sink.send(consumer.next(100));
      logs.add(A, 1, 1);
      assertNull(consumer.next(100));
      sink.answer(A, null);
      assertEquals(1, consumer.next(100).offset());
    }
  }

  @Test
  void inABatchOfAnotherProducerAPartitionStandsAgain() {
    logs.add(A, 1, 0, 1, 2, 3);
    for (int from = 0; from < 4; from += 2) {
      consumer.begin(List.of(range(A, from, TaskShare.NO_END)));
      try (Sink sink = new Sink()) {
        sink.send(consumer.next(100));
        assertNull(consumer.next(100));
        sink.answer(A, null);
        sink.send(consumer.next(100));
      }
    }
  }

  @Test
  void aBatchOfOneRecordAPartitionWaitsForNoAnswer() {
    logs.add(A, 1, 0, 1);
    logs.add(B, 1, 0, 1);
    consumer.begin(List.of(range(A, 0, 1), range(B, 0, 1)));
    whenIdle = () -> fail("it waits");
    try (Sink sink = new Sink()) {
      sink.send(consumer.next());
      sink.send(consumer.next());
      assertNull(consumer.next());
    }
  }

  @Test
  void whatAFilterDropsWaitsForNoAnswer() {
    logs.add(A, 1, 0, 1, 2);
    logs.add(new TopicPartition("other", 0), 1, 0, 1);
    width = 1;
    consumer.begin(
        List.of(range(A, 0, 3), range(new TopicPartition("other", 0), 0, TaskShare.NO_END)));
    try (Sink sink = new Sink()) {
      TopicPartition sent = sink.send(consumer.next());
      for (int record = 0; record < (sent.equals(A) ? 2 : 3); record++) {
        assertNotEquals(sent.topic(), consumer.next(100).topic(), "the others are dropped");
      }
      sink.answer(sent, null);
      assertEquals(1, consumer.next(100).offset());
    }
  }

  @Test
  void whatStandsUntilAFirstAnswerKeepsNoMoreThanATaskMay() {
    width = 4;
    consumer.begin(backlog(400));
    try (Sink sink = new Sink()) {
      List<TopicPartition> sent = new ArrayList<>();
      ConsumerRecord<byte[], byte[]> record;
      while ((record = consumer.next(100)) != null) {
        assertEquals(0, record.offset());
        sent.add(sink.send(record));
      }
      assertEquals(400, sent.size(), "partitions");
      assertTrue(keptBytes() > asked.get(0).mostBytes() / 2, keptBytes() + " bytes are kept");
      assertTrue(keptBytes() <= asked.get(0).mostBytes(), keptBytes() + " bytes are kept");

      sent.forEach(tp -> sink.answer(tp, null));
      Map<Integer, Long> next = new HashMap<>();
      for (int left = 0; left < 1_200; left++) {
        ConsumerRecord<byte[], byte[]> one = consumer.next(20);
        assertEquals(next.merge(one.partition(), 1L, Long::sum), one.offset());
      }
      assertNull(consumer.next(20));
    }
  }

  @Test
  void batchesOfAnySizeHaveEachRecordOnce() {
    for (int seed = 0; seed < 300; seed++) {
      Random random = new Random(seed);
      logs.sizes.clear();
      logs.ends.clear();
      List<TopicPartition> partitions = new ArrayList<>();
      List<String> all = new ArrayList<>();
      for (int number = 0; number < 5; number++) {
        TopicPartition tp = new TopicPartition("t", number);
        partitions.add(tp);
        for (long offset = 0; offset < 60; offset++) {
          if (random.nextInt(3) > 0) {
            logs.add(tp, random.nextInt(3) * 1_500_000, offset);
            all.add(number + ":" + offset);
          }
        }
        logs.ends.put(tp, 60L);
      }
      consumer = shared(Map.of("kafka.fetch.max.bytes", "1048576"));
      assertEquals(sorted(all), sorted(inBatches(random, partitions)), "seed " + seed);
    }
  }

  private static List<String> sorted(List<String> records) {
    records.sort(null);
    return records;
  }

  private List<String> inBatches(Random random, List<TopicPartition> partitions) {
    Map<TopicPartition, Long> next = new HashMap<>();
    List<String> read = new ArrayList<>();
    boolean isOver = false;
    while (!isOver) {
      most = 1 + random.nextInt(20);
      isOver = true;
      List<TaskShare.Range> ranges = new ArrayList<>();
      for (TopicPartition tp : partitions) {
        long from = next.getOrDefault(tp, 0L);
        long until = Math.min(60, from + random.nextInt(12));
        isOver &= until == 60;
        next.put(tp, until);
        if (until > from) {
          ranges.add(range(tp, from, until));
        }
      }
      if (!ranges.isEmpty()) {
        read.addAll(batch(ranges.toArray(new TaskShare.Range[0])));
      }
    }
    return read;
  }

  @Test
  void aPausedPartitionStandsStillAndGoesOnWhereItStood() {
    consumer = shared(Map.of("flow", "A->B"));
    logs.add(A, 1, 0, 1, 2);
    logs.add(B, 1, 0, 1, 2);
    consumer.begin(List.of(range(A, 0, TaskShare.NO_END), range(B, 0, TaskShare.NO_END)));
    ConsumerRecord<byte[], byte[]> first = consumer.next(100);
    TopicPartition passed = new TopicPartition(first.topic(), first.partition());
    try {
      PausedPartitions.set(Map.of("A->B", Set.of(passed)));
      for (int i = 0; i < 3; i++) {
        assertTrue(consumer.next(100).partition() != passed.partition(), "only the other one");
      }
      assertNull(consumer.next(100));
      assertEquals(1, consumer.offsets().map().get(passed));

      consumer.begin(
          List.of(range(A, next(A), TaskShare.NO_END), range(B, next(B), TaskShare.NO_END)));
      assertNull(consumer.next(100), "in the next batch as well");
      client().waits.clear();
      assertNull(consumer.next(1_000), "and its end must be noticed soon");
      assertEquals(Duration.ofMillis(500), client().waits.get(0));
      PausedPartitions.set(Map.of("B->A", Set.of(passed)));
      consumer.begin(
          List.of(range(A, next(A), TaskShare.NO_END), range(B, next(B), TaskShare.NO_END)));
      assertEquals(1, consumer.next(100).offset(), "it goes on where it stood");
      assertEquals(2, consumer.next(100).offset());
      assertNull(consumer.next(100));
    } finally {
      PausedPartitions.set(Map.of());
    }
  }

  private long next(TopicPartition tp) {
    return consumer.offsets().map().get(tp);
  }

  @Test
  void whatIsPausedStaysSoInTheNextBatch() {
    consumer = shared(Map.of("flow", "A->B"));
    logs.add(A, 1, 0, 1);
    try {
      PausedPartitions.set(Map.of("A->B", Set.of(A)));
      for (int batch = 0; batch < 2; batch++) {
        consumer.begin(List.of(range(A, 0, TaskShare.NO_END)));
        assertNull(consumer.next(100));
        assertEquals(0, consumer.offsets().map().get(A));
      }
    } finally {
      PausedPartitions.set(Map.of());
    }
    assertEquals(0, consumer.next(100).offset());
  }
}
