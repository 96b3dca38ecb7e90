package replication.source;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The driver's half of a streaming read: which offsets a batch has, and which task reads what. */
final class SharedStream
    implements MicroBatchStream,
        SupportsTriggerAvailableNow,
        SupportsRealTimeMode,
        ReportsSourceMetrics {
  private final String id = UUID.randomUUID().toString();
  private final SourceOffsets start;
  private final String generation;
  private final int tasks;
  private final long limit;
  private final ClientSettings settings;
  private final LogEnds ends;
  private final PartitionTasks partitionTasks;
  private final String relayName;
  private final Relay relay; // null if the query reads alone
  private SourceOffsets latest;
  private SourceOffsets batchStarts;
  private boolean isDrain;

  SharedStream(CaseInsensitiveStringMap options) {
    this(options, LogEnds::new);
  }

  SharedStream(CaseInsensitiveStringMap options, Function<ClientSettings, LogEnds> asking) {
    start = start(options);
    generation = options.getOrDefault("generation", "");
    tasks = SharedSource.tasks(options, start.map().size());
    limit = options.getLong("maxOffsetsPerTrigger", Long.MAX_VALUE);
    settings = ClientSettings.of(options, tasks);
    ends = asking.apply(settings);
    partitionTasks = new PartitionTasks(start.map().keySet(), tasks);
    relayName = options.getOrDefault(SharedSource.RELAY, "");
    relay = relay(options);
  }

  private static SourceOffsets start(CaseInsensitiveStringMap options) {
    Map<TopicPartition, Long> next = SourceOffsets.parse(options.get(SharedSource.STARTS)).map();
    Map<TopicPartition, Integer> epochs = new HashMap<>();
    SourceOffsets.parse(options.getOrDefault(SharedSource.EPOCHS, "{}"))
        .map()
        .forEach((tp, epoch) -> epochs.put(tp, epoch.intValue()));
    return SourceOffsets.of(next, epochs);
  }

  private Relay relay(CaseInsensitiveStringMap options) {
    if (relayName.isEmpty()) {
      return null;
    }
    return options.getBoolean(SharedSource.RELAY_BEGINS, false)
        ? Relay.begin(relayName, options.getLong(SharedSource.TURN_MS, 0), partitionTasks)
        : Relay.of(relayName);
  }

  @Override
  public Offset initialOffset() {
    return start;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return SourceOffsets.parse(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return limit == Long.MAX_VALUE ? ReadLimit.allAvailable() : ReadLimit.maxRows(limit);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    isDrain = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("a batch is limited");
  }

  @Override
  public Offset reportLatestOffset() {
    return latest;
  }

  @Override
  public Offset latestOffset(Offset from, ReadLimit most) {
    Map<TopicPartition, Long> starts = ((SourceOffsets) from).map();
    Set<TopicPartition> read = new HashSet<>(starts.keySet());
    read.removeAll(PausedPartitions.of(settings.flow()));
    Map<TopicPartition, Long> leftOut = LeftOut.standing(generation, starts);
    read.removeAll(leftOut.keySet());
    if (latest == null || !isDrain) {
      Map<TopicPartition, Long> all = new HashMap<>(starts);
      Map<TopicPartition, Long> known = ends.ends(read);
      if (isDrain) {
        LogEnds.checkAll(read, known); // a drain that leaves records must not end well
      }
      all.putAll(known); // what does not answer stands still
      latest = SourceOffsets.of(all);
    }
    SourceOffsets end = most instanceof ReadMaxRows rows ? limited(starts, rows.maxRows()) : latest;
    return read.size() == starts.size() ? end : standing(starts, end, read, leftOut);
  }

  /** Ends of a batch in which only what is {@code read} moves; what was left out goes back. */
  private static SourceOffsets standing(
      Map<TopicPartition, Long> starts,
      SourceOffsets end,
      Set<TopicPartition> read,
      Map<TopicPartition, Long> leftOut) {
    Map<TopicPartition, Long> ends = new HashMap<>(end.map());
    starts.forEach((tp, start) -> ends.put(tp, read.contains(tp) ? ends.get(tp) : start));
    ends.putAll(leftOut);
    return SourceOffsets.of(ends);
  }

  /** Ends of a batch of some {@code most} records: each partition has its share of the backlog. */
  private SourceOffsets limited(Map<TopicPartition, Long> starts, long most) {
    double backlog = 0;
    for (Map.Entry<TopicPartition, Long> end : latest.map().entrySet()) {
      backlog += Math.max(0, end.getValue() - starts.get(end.getKey()));
    }
    if (backlog <= most) {
      return latest;
    }
    Map<TopicPartition, Long> batch = new HashMap<>();
    for (Map.Entry<TopicPartition, Long> end : latest.map().entrySet()) {
      long begin = starts.get(end.getKey());
      long size = end.getValue() - begin;
      long share = Math.min(size, (long) Math.ceil(most * (size / backlog)));
      batch.put(end.getKey(), begin + share);
    }
    return SourceOffsets.of(batch);
  }

  /** The tasks of a micro-batch. */
  @Override
  public InputPartition[] planInputPartitions(Offset from, Offset until) {
    Map<TopicPartition, Long> starts = new HashMap<>(((SourceOffsets) from).map());
    Map<TopicPartition, Long> ends = ((SourceOffsets) until).map();
    starts.replaceAll(
        (tp, start) -> LeftOut.goesBack(generation, tp, ends.get(tp)) ? ends.get(tp) : start);
    return plan(starts, ends, epochs(from));
  }

  /** The tasks of a Real-Time batch, which ends by time. */
  @Override
  public InputPartition[] planInputPartitions(Offset from) {
    Map<TopicPartition, Long> starts = ((SourceOffsets) from).map();
    Map<TopicPartition, Long> without = new HashMap<>();
    starts.keySet().forEach(tp -> without.put(tp, TaskShare.NO_END));
    return plan(starts, without, epochs(from));
  }

  /** What is known of the leaders at the start of a batch, also where Spark has kept its JSON. */
  private Map<TopicPartition, Integer> epochs(Offset from) {
    SourceOffsets at = (SourceOffsets) from;
    Map<TopicPartition, Integer> known = new HashMap<>(at.epochs());
    start
        .epochs()
        .forEach(
            (tp, epoch) -> {
              if (start.map().get(tp).equals(at.map().get(tp))) {
                known.putIfAbsent(tp, epoch);
              }
            });
    return known;
  }

  private InputPartition[] plan(
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> batchEnds,
      Map<TopicPartition, Integer> epochs) {
    List<TaskShare.Range> ranges = SharedSource.ranges(starts, batchEnds, epochs);
    if (relay != null) {
      return shares(relayName, relayName, tasks, ranges, relay.plan(this, starts));
    }
    partitionTasks.begin(starts);
    return shares(id, "", tasks, ranges, partitionTasks);
  }

  /** The shares of those tasks that have something to read. */
  static InputPartition[] shares(
      String id,
      String relay,
      int tasks,
      List<TaskShare.Range> ranges,
      PartitionTasks partitionTasks) {
    List<List<TaskShare.Range>> ofTasks = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      ofTasks.add(new ArrayList<>());
    }
    ranges.forEach(range -> ofTasks.get(partitionTasks.of(range.partition())).add(range));
    TaskHosts hosts = TaskHosts.now();
    List<InputPartition> shares = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      if (!ofTasks.get(task).isEmpty()) {
        shares.add(new TaskShare(id + "#" + task, relay, ofTasks.get(task), hosts.of(id, task)));
      }
    }
    return shares.toArray(new InputPartition[0]);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] ofTasks) {
    Map<TopicPartition, Long> from = new HashMap<>();
    Map<TopicPartition, Long> until = new HashMap<>();
    Map<TopicPartition, Integer> epochs = new HashMap<>();
    for (PartitionOffset offsets : ofTasks) {
      TaskOffsets read = (TaskOffsets) offsets;
      from.putAll(read.from().map());
      until.putAll(read.until().map());
      epochs.putAll(read.until().epochs());
    }
    batchStarts = SourceOffsets.of(from);
    if (relay != null) {
      relay.ended(this);
    }
    return SourceOffsets.of(until, epochs);
  }

  /**
   * Where the last batch began: of queries that take turns, not where this one has ended before.
   */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return relay == null || batchStarts == null
        ? Map.of()
        : Map.of(SharedSource.STARTS, batchStarts.json());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SharedReader.Factory(settings, true, !isDrain);
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {
    ends.close();
    if (relay != null) {
      relay.end();
    }
    SharedConsumers.closeOf(id); // on other machines they are closed with age
  }
}
