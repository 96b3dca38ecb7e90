package replication.source;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import replication.producer.SchemaGate;
import replication.producer.Throttle;

/**
 * A consumer of many partitions, and what it has fetched of them beyond the end of the last batch.
 *
 * <p>It serves one task after the other. A batch that begins where the last one ended goes on with
 * what is here already: nothing is asked again, and the fetch on its way stays of use.
 */
final class SharedConsumer {
  /** A bounded batch's records are in the log: what does not come at once may have passed. */
  private static final Duration LOOK = Duration.ofMillis(10);

  private static final Duration ANSWER = Duration.ofSeconds(10);

  /** How long the end of a pause goes unnoticed while no record comes. */
  private static final Duration SLICE = Duration.ofMillis(500);

  /** A wait while nothing is paused. Each end of one costs as much as an empty fetch. */
  private static final Duration LONG = Duration.ofSeconds(5);

  /** After so many polls that left room, and twice as many each time they did not, fetches grow. */
  private static final int CALM_POLLS = 50;

  private static final int MOST_CALM_POLLS = 1 << 20;

  private static final long GONE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Function<ClientSettings, Consumer<byte[], byte[]>> connect;
  private final LongSupplier clock;
  private final Map<TopicPartition, FetchedPartition> fetched = new LinkedHashMap<>();
  private final ArrayDeque<FetchedPartition> ready = new ArrayDeque<>();
  private final Set<FetchedPartition> open = new LinkedHashSet<>();
  private final ClientSettings planned;
  private ClientSettings settings;
  private volatile Consumer<byte[], byte[]> consumer;
  private final HeldUp heldUp;
  private FetchedPartition current;
  private Set<TopicPartition> paused = Set.of();
  private Map<String, Set<TopicPartition>> followed = Map.of();
  private boolean isWoken;
  private long leftBytes;
  private int calmPolls; // in a row
  private int wantedPolls = CALM_POLLS;

  SharedConsumer(ClientSettings settings) {
    this(settings, ClientSettings::connect, System::nanoTime);
  }

  SharedConsumer(
      ClientSettings settings,
      Function<ClientSettings, Consumer<byte[], byte[]>> connect,
      LongSupplier clock) {
    planned = settings;
    this.settings = settings;
    this.connect = connect;
    this.clock = clock;
    heldUp = new HeldUp(settings.mostBytes());
    consumer = connect.apply(settings);
  }

  /** Lets no record of a topic through that has used up a limit of these. */
  void follow(Throttle limits) {
    heldUp.follow(limits);
  }

  /** Lets no record through whose schema is not known by these; any if it is null. */
  void follow(SchemaGate schemas) {
    heldUp.follow(schemas);
  }

  /** Begins a batch. */
  void begin(List<TaskShare.Range> ranges) {
    ready.clear();
    open.clear();
    heldUp.clear();
    current = null;
    leftBytes = 0;
    consumer.assign(ranges.stream().map(TaskShare.Range::partition).toList());
    consumer.resume(consumer.paused());
    paused = Set.of();
    followed = Map.of();
    fetched.keySet().retainAll(consumer.assignment());
    List<FetchedPartition> sought = new ArrayList<>();
    for (TaskShare.Range range : ranges) {
      FetchedPartition partition = fetched.get(range.partition());
      if (partition == null || partition.next() != range.from()) {
        partition = new FetchedPartition(range.partition(), range.from(), range.epoch());
        fetched.put(range.partition(), partition);
        sought.add(partition);
      }
      partition.begin(range.until());
      open.add(partition);
      if (partition.hasRecords()) {
        ready.add(partition);
      }
    }
    seek(sought);
  }

  /** Of which partition the last record was. */
  FetchedPartition current() {
    return current;
  }

  /** The next record of a batch that has an end; null at the end. */
  ConsumerRecord<byte[], byte[]> next() {
    noteSent();
    long[] waits = null; // since when, and when somebody looked for what is gone
    while (true) {
      ConsumerRecord<byte[], byte[]> record = fetchedRecord();
      if (record != null || open.isEmpty()) {
        return record;
      }
      if (poll(LOOK) || finishPassed() || leaveOut() || !heldUp.isEmpty()) {
        waits = null;
        continue;
      }
      long now = clock.getAsLong();
      waits = waits == null ? new long[] {now, now} : waits;
      if (now - waits[1] > GONE_NANOS) {
        failIfGone();
        waits[1] = clock.getAsLong();
      }
      if (now - waits[0] > TimeUnit.MILLISECONDS.toNanos(settings.timeoutMs())) {
        throw new TimeoutException(
            String.format(
                "no record came within %d ms of %d partitions, such as %s",
                settings.timeoutMs(), open.size(), open.iterator().next()));
      }
    }
  }

  /** The next record of a batch without an end; null if none comes in time, or before a wake-up. */
  ConsumerRecord<byte[], byte[]> next(long patienceMs) {
    noteSent();
    if (followed != PausedPartitions.all()) {
      followPauses();
    }
    ConsumerRecord<byte[], byte[]> record = fetchedRecord();
    if (record != null) { // most often: the clock is not looked at
      return record;
    }
    long end = clock.getAsLong() + TimeUnit.MILLISECONDS.toNanos(patienceMs);
    long left;
    isWoken = false;
    while (record == null && !isWoken && (left = end - clock.getAsLong()) > 0) {
      poll(Duration.ofNanos(Math.min(left, slice().toNanos())));
      if (followed != PausedPartitions.all()) { // what was paused meanwhile is not passed on
        followPauses();
      }
      record = fetchedRecord();
    }
    return record;
  }

  /** A pause that begins need not be noticed before a record comes; its end must be. */
  private Duration slice() {
    return heldUp.isEmpty() ? (paused.isEmpty() ? LONG : SLICE) : LOOK;
  }

  /** Ends the wait for a record, now or when it begins; for any thread. */
  void wakeUp() {
    consumer.wakeup();
  }

  /** Called when a task asks for a record: its thread has passed on the one before. */
  private void noteSent() {
    if (current != null) {
      current.noteSent();
    }
  }

  /** Stops the fetches of what is paused now, and goes on with the rest where it stood. */
  private void followPauses() {
    followed = PausedPartitions.all();
    Set<TopicPartition> wanted = followed.getOrDefault(settings.flow(), Set.of());
    for (FetchedPartition partition : open) {
      boolean isPaused = wanted.contains(partition.partition);
      if (isPaused && !paused.contains(partition.partition)) {
        heldUp.drop(partition);
        partition.pause();
        ready.remove(partition);
        current = current == partition ? null : current;
        consumer.seek(partition.partition, partition.place());
        consumer.pause(List.of(partition.partition));
      } else if (!isPaused && paused.contains(partition.partition)) {
        consumer.resume(List.of(partition.partition));
      }
    }
    paused = wanted;
  }

  private ConsumerRecord<byte[], byte[]> fetchedRecord() {
    while (current != null || (current = nextReady()) != null) {
      if (heldUp.takes(current, open, consumer)) {
        current = null;
        continue;
      }
      ConsumerRecord<byte[], byte[]> record = current.take();
      if (record != null) {
        return record;
      }
      if (current.hasEnd() && isPassed(current)) {
        finish(current);
      }
      current = null;
    }
    return null;
  }

  private FetchedPartition nextReady() {
    if (ready.isEmpty() && !heldUp.isEmpty()) {
      ready.addAll(heldUp.release(consumer));
    }
    return ready.poll();
  }

  private boolean poll(Duration patience) {
    if (heldUp.awaitsAnswers(patience, consumer)) {
      return true;
    }
    ConsumerRecords<byte[], byte[]> polled;
    try {
      polled = consumer.poll(patience);
    } catch (WakeupException e) {
      isWoken = true;
      return false;
    } catch (OffsetOutOfRangeException e) {
      throw new DataLoss(e);
    } catch (PollBudget.Exceeded e) { // all of it is fetched again, in smaller parts
      shrink(settings.forMoreBytes());
      return true;
    }
    for (TopicPartition tp : polled.partitions()) {
      FetchedPartition partition = fetched.get(tp);
      partition.add(polled.records(tp));
      ready.add(partition);
    }
    if (polled.count() >= settings.polledRecords()) { // the client may have more of them
      shrink(settings.forMoreRecords());
    } else if (settings != planned && !polled.isEmpty()) {
      growAgain(polled);
    }
    return !polled.isEmpty();
  }

  /** Each time it takes twice as many polls until fetches grow, or it might go on for ever. */
  private void shrink(ClientSettings fitting) {
    calmPolls = 0;
    wantedPolls = Math.min(MOST_CALM_POLLS, 2 * wantedPolls);
    replaceClient(fitting);
  }

  /** What had to be fetched in small parts was compressed more than what comes now. */
  private void growAgain(ConsumerRecords<byte[], byte[]> polled) {
    calmPolls = planned.hasRoomFor(polled) ? calmPolls + 1 : 0;
    if (calmPolls >= wantedPolls) {
      calmPolls = 0;
      replaceClient(settings.towards(planned));
    }
  }

  /** Goes on with a client that holds nothing back; what the old one holds is fetched again. */
  private void replaceClient(ClientSettings fitting) {
    settings = fitting;
    ClientSettings.close(consumer);
    consumer = connect.apply(settings);
    consumer.assign(open.stream().map(partition -> partition.partition).toList());
    seek(open);
    consumer.pause(heldUp.paused());
    consumer.pause(consumer.assignment().stream().filter(paused::contains).toList());
    fetched.values().stream().filter(FetchedPartition::isFinished).forEach(FetchedPartition::drop);
  }

  /**
   * Goes to the places of partitions, and waits until leaders have said that they have what was
   * read before. Until then the client would fetch the other partitions only, and those may be
   * idle. It waits no longer than that fetch.
   */
  private void seek(Collection<FetchedPartition> sought) {
    List<TopicPartition> read = new ArrayList<>();
    for (FetchedPartition partition : sought) {
      if (partition.fetchedPlace().leaderEpoch().isPresent()) {
        read.add(partition.partition);
      }
    }
    Duration most = Duration.ofMillis(Math.min(settings.fetchWaitMs(), ANSWER.toMillis()));
    // a new client knows no leaders, and would take a place as it is until it does
    boolean isKnown = !read.isEmpty() && isDone(() -> consumer.endOffsets(read, most));
    for (FetchedPartition partition : sought) {
      consumer.seek(partition.partition, partition.fetchedPlace());
    }
    for (TopicPartition tp : isKnown ? read : List.<TopicPartition>of()) {
      if (!isDone(() -> consumer.position(tp, most))) {
        return;
      }
    }
  }

  /** Whether leaders have answered. If not, the client asks on while the others are read. */
  private boolean isDone(Runnable question) {
    try {
      question.run();
      return true;
    } catch (TimeoutException e) {
      return false;
    } catch (WakeupException e) {
      consumer.wakeup(); // which is for the poll that follows
      return false;
    } catch (OffsetOutOfRangeException e) {
      throw new DataLoss(e);
    }
  }

  /** Ends what has no more records before its end: compaction and transactions leave gaps. */
  private boolean finishPassed() {
    List<FetchedPartition> passed = new ArrayList<>();
    for (FetchedPartition partition : open) {
      if (isPassed(partition)) {
        passed.add(partition);
      }
    }
    passed.forEach(this::finish);
    return !passed.isEmpty();
  }

  /** Ends the batch for what waits for a schema once nothing else is left of it. */
  private boolean leaveOut() {
    List<FetchedPartition> left = heldUp.leave(open); // each is paused
    open.removeAll(left);
    left.forEach(FetchedPartition::drop);
    return !left.isEmpty();
  }

  private boolean isPassed(FetchedPartition partition) {
    try {
      return partition.isPassed(partition.next())
          || partition.isPassed(consumer.position(partition.partition, Duration.ZERO));
    } catch (TimeoutException e) { // its leader is unknown
      return false;
    }
  }

  /**
   * Ends a partition's part of the batch. It is paused, or the client would go on to fetch it while
   * others are read.
   */
  private void finish(FetchedPartition partition) {
    open.remove(partition);
    heldUp.drop(partition);
    partition.finish();
    long left = partition.bytes();
    boolean isBehind = left > 0 || consumer.currentLag(partition.partition).orElse(0) > 0;
    leftBytes += left + (isBehind ? settings.partitionBytes() : 0); // and a fetch in the client
    if (leftBytes > settings.mostBytes()) {
      dropFinished();
    } else {
      consumer.pause(List.of(partition.partition));
    }
  }

  /** Drops what was fetched beyond the batch, here and in the client. */
  private void dropFinished() {
    leftBytes = 0;
    fetched.values().stream().filter(FetchedPartition::isFinished).forEach(FetchedPartition::drop);
    consumer.assign(open.stream().map(partition -> partition.partition).toList());
  }

  private void failIfGone() {
    Set<TopicPartition> asked = new LinkedHashSet<>();
    open.forEach(partition -> asked.add(partition.partition));
    Set<TopicPartition> gone;
    try {
      gone = LogEnds.gone(consumer, asked, ANSWER);
    } catch (TimeoutException e) { // nobody knows
      return;
    }
    if (!gone.isEmpty()) {
      throw new DataLoss(
          "deleted while a batch reads them: "
              + gone.stream().map(TopicPartition::toString).sorted().toList());
    }
  }

  /** Where each partition is. The client is not asked: it waits while a leader is unknown. */
  SourceOffsets offsets() {
    Map<TopicPartition, Long> next = new LinkedHashMap<>();
    Map<TopicPartition, Integer> epochs = new LinkedHashMap<>();
    for (FetchedPartition partition : fetched.values()) {
      next.put(partition.partition, partition.next());
      if (partition.epoch() != null) {
        epochs.put(partition.partition, partition.epoch());
      }
    }
    return SourceOffsets.of(next, epochs);
  }

  void close() {
    fetched.clear();
    ready.clear();
    heldUp.clear();
    ClientSettings.close(consumer);
  }
}
