package replication.producer;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;
import org.apache.kafka.common.TopicPartition;

/**
 * The records that one producer writes to one target partition: which source offsets are in flight,
 * and which target offsets the acknowledged ones got.
 *
 * <p>One task at a time writes a partition and the producer is idempotent, so acknowledgements come
 * in the order of the records sent. Both sides are kept as ranges in arrays that are used again: a
 * record of a dense topic costs two additions and no memory.
 */
public final class PartitionCopy {
  /** Acknowledged runs kept between two reports; beyond that, neighbours are joined. */
  private static final int MOST_RUNS = 8_192;

  /** Two neighbours stay apart where together they are more than this share of what follows. */
  private static final int RESOLUTION = 64; // as in offsets/thinning.py

  private static final int WIDTH = 4; // numbers of a run: srcFrom, srcUntil, tgtFrom, count

  private final TopicPartition partition;
  private final Set<PartitionCopy> busy;
  private boolean isBusy; // and among those
  private String generation = "";
  private String flow = "";
  private long spacing;
  private long task = Long.MIN_VALUE;
  private long begunAt;
  private volatile boolean isDropped;

  private int inFlight;
  private boolean isBroken;
  private boolean isAwaited;
  private String rejection;
  private long rejectedAt; // its source offset, -1 if unknown
  private boolean isTold; // whether the rejection was reported
  private final BatchRoom room = new BatchRoom();
  private long[] sent = new long[16]; // a ring of source ranges: from, until
  private int oldest;
  private int ranges;
  private long[] runs = new long[16 * WIDTH];
  private int count;
  private int limit = MOST_RUNS;
  private final MirrorSyncs syncs = new MirrorSyncs();
  private long[] kept = {};
  private long bytes; // of the acknowledged records that are not reported yet
  private long newest = -1; // of their timestamps
  private final Timings timings = new Timings();

  /**
   * What is written to {@code partition}.
   *
   * @param busy those that reports look at: it adds itself with its first record, and {@link
   *     #leaveIfDone} removes it
   */
  public PartitionCopy(TopicPartition partition, Set<PartitionCopy> busy) {
    this.partition = partition;
    this.busy = busy;
  }

  private void join() {
    if (!isBusy) {
      isBusy = true;
      busy.add(this);
    }
  }

  /** Leaves the busy ones if nothing is in flight and all is reported; most are at rest mostly. */
  public synchronized void leaveIfDone() {
    if (isDone()) {
      isBusy = false;
      busy.remove(this);
    }
  }

  private boolean isDone() {
    return inFlight == 0 && count == 0 && (rejection == null || isTold);
  }

  /** A generation without its token: {@code A->B#7} of what tags a task. */
  public static String nameOf(String tag) {
    return tag.substring(tag.indexOf('\t') + 1);
  }

  /** The flow of a generation: {@code A->B} of {@code A->B#7}, before which a token may stand. */
  public static String flowOf(String generation) {
    String name = nameOf(generation);
    return name.substring(0, Math.max(0, name.lastIndexOf('#')));
  }

  private static long numberOf(String generation) {
    return generation.isEmpty()
        ? -1
        : Long.parseLong(generation.substring(generation.lastIndexOf('#') + 1));
  }

  boolean isOf(String topic, int number) {
    return partition.partition() == number && partition.topic().equals(topic);
  }

  /** Lets a task write; false if records of another one are in flight and might come after its. */
  public synchronized boolean begin(
      long attempt, String ofGeneration, String recordsBetweenBorders) {
    if (task == attempt && generation.equals(ofGeneration)) {
      return true; // between two partitions of one task
    }
    if (inFlight > 0) {
      return false;
    }
    if (!generation.equals(ofGeneration)) {
      generation = ofGeneration;
      flow = flowOf(ofGeneration);
      limit = MOST_RUNS;
      count = 0; // what the generation before had not reported is found from the target's log
      bytes = 0;
      newest = -1;
      rejection = null;
      syncs.restart();
      room.restart();
      timings.beginGeneration();
    }
    spacing = Long.parseLong(recordsBetweenBorders);
    task = attempt;
    begunAt = System.nanoTime();
    isBroken = false;
    ranges = 0;
    timings.forget();
    rejection = isTold ? null : rejection;
    return true;
  }

  /** Raises the number of the flow's newest generation to this one's. */
  synchronized void noteGeneration(Map<String, Long> newest) {
    newest.merge(flow, numberOf(generation), Math::max);
  }

  /**
   * Whether it is of no more use: its task, begun a while ago, has ended, all is acknowledged and
   * reported, and its flow has a newer generation. The caller drops it before another task can
   * begin.
   */
  synchronized boolean isOver(Map<String, Long> newest, LongPredicate isRunning, long idleNanos) {
    isDropped =
        isDone()
            && numberOf(generation) < newest.getOrDefault(flow, -1L)
            && System.nanoTime() - begunAt > idleNanos
            && !isRunning.test(task);
    return isDropped;
  }

  boolean isDropped() {
    return isDropped;
  }

  /** As in {@link BatchRoom#limit}. */
  synchronized void limitBatches(int ofProducer, int ofTopic) {
    room.limit(ofProducer, ofTopic);
  }

  /** Adds a record of that many bytes that is about to be sent, once there is {@link BatchRoom}. */
  public synchronized void sent(long source, int size, long timestamp) throws InterruptedException {
    while (inFlight > 0 && !room.takes(size)) {
      isAwaited = true;
      wait();
    }
    isAwaited = false;
    join();
    room.add(size, inFlight == 0);
    inFlight++;
    if (isBroken) {
      return;
    }
    timings.sent(source, timestamp);
    int newest = at(ranges - 1);
    if (ranges > 0 && sent[newest + 1] == source) {
      sent[newest + 1]++;
      return;
    }
    if (2 * ranges == sent.length) {
      growSent();
    }
    newest = at(ranges);
    sent[newest] = source;
    sent[newest + 1] = source + 1;
    ranges++;
  }

  /** Whether the next record waits until the first one in this generation is acknowledged. */
  public synchronized boolean awaitsFirst() {
    return inFlight > 0 && !room.isKnown();
  }

  /** Takes back the newest record, which never reached a batch. */
  synchronized void notSent() {
    leave();
    if (isBroken || ranges == 0) {
      return;
    }
    int newest = at(ranges - 1);
    timings.notSent(--sent[newest + 1]);
    if (sent[newest + 1] == sent[newest]) {
      ranges--;
    }
  }

  /** A record was lost on its way: those after it may or may not be written, in any order. */
  synchronized void failed(Exception reason) {
    leave();
    isBroken = true;
    long source = takeOldest();
    String more = Rejections.more(rejection, reason);
    if (more != null && !more.equals(rejection)) {
      join(); // a producer that may not write any more may have failed this record before
      rejection = more;
      rejectedAt = source;
      isTold = false;
    }
  }

  /**
   * The oldest record in flight is on the target; its offset there is -1 if the broker forgot.
   *
   * @param size bytes of its key and value
   * @param timestamp what the target has as its timestamp
   */
  public synchronized void acknowledged(long target, int size, long timestamp) {
    leave();
    room.acknowledged();
    long source = takeOldest();
    if (!isBroken && source >= 0 && target >= 0 && !generation.isEmpty()) {
      bytes += size;
      newest = Math.max(newest, timestamp);
      timings.acknowledged(source);
      add(source, target);
    }
  }

  /** The source offset of the oldest record in flight; -1 if it was sent after a lost one. */
  private long takeOldest() {
    if (ranges == 0) {
      return -1;
    }
    long source = sent[oldest]++;
    if (sent[oldest] == sent[oldest + 1]) {
      oldest = (oldest + 2) % sent.length;
      ranges--;
    }
    return source;
  }

  private void leave() {
    inFlight = Math.max(0, inFlight - 1);
    if (isAwaited) {
      notifyAll();
    }
  }

  public synchronized long unacknowledged(String ofFlow) {
    return flow.equals(ofFlow) ? inFlight : 0;
  }

  /** The flow and its unacknowledged records, by {@code sum}. */
  public synchronized void countInto(Map<String, Long> sum) {
    if (!flow.isEmpty()) {
      sum.merge(nameOf(generation), (long) inFlight, Long::sum);
    }
  }

  /** Appends generation and partition if records are in flight, unless tasks of that one run. */
  public synchronized void reportHeld(StringBuilder lines, Set<String> running) {
    String name = nameOf(generation);
    if (inFlight > 0 && !flow.isEmpty() && !running.contains(name)) {
      lines.append("held\t").append(name).append('\t').append(partition.topic());
      lines.append('\t').append(partition.partition()).append('\n');
    }
  }

  /** Appends what is new since the last call: a rejection, and the runs that were acknowledged. */
  public synchronized void report(StringBuilder lines) {
    if (rejection != null && !isTold) {
      begin(lines, "rejected").append(rejectedAt).append('\t').append(rejection).append('\n');
      isTold = true;
    }
    if (count == 0) {
      return;
    }
    joinOlder();
    begin(lines, "runs");
    for (int i = 0; i < count * WIDTH; i++) {
      lines.append(runs[i]).append(i % WIDTH == WIDTH - 1 ? ';' : ',');
    }
    lines.append('\t');
    for (long sync : kept) {
      lines.append(sync).append(',');
    }
    lines.append('\n');
    begin(lines, "copied").append(bytes).append(',').append(newest);
    lines.append(',').append(timings.newest()).append('\n');
    if (!timings.isEmpty()) {
      timings.report(begin(lines, "timed"));
      lines.append('\n');
    }
    bytes = 0;
    newest = -1;
    count = 0;
    limit = MOST_RUNS;
    if (runs.length > 256 * WIDTH) {
      runs = new long[16 * WIDTH];
    }
  }

  private StringBuilder begin(StringBuilder lines, String kind) {
    lines.append(kind).append('\t').append(generation).append('\t').append(partition.topic());
    return lines.append('\t').append(partition.partition()).append('\t');
  }

  private void add(long source, long target) {
    int last = (count - 1) * WIDTH;
    if (count > 0 && runs[last + 1] == source && runs[last + 2] + runs[last + 3] == target) {
      runs[last + 1]++;
      runs[last + 3]++;
      return;
    }
    if (count >= limit) {
      joinOlder();
      for (long width = Math.max(2, spacing); count >= limit && width > 0; width *= 2) {
        join(width, 0);
      }
      if (count >= limit) {
        limit *= 2; // others' records lie between the runs, so that trying again would not help
      }
    }
    if ((count + 1) * WIDTH > runs.length) {
      runs = Arrays.copyOf(runs, 2 * runs.length);
    }
    last = count++ * WIDTH;
    runs[last] = source;
    runs[last + 1] = source + 1;
    runs[last + 2] = target;
    runs[last + 3] = 1;
  }

  /** Joins neighbours up to the spacing, the fewer the newer: a group near the end stays exact. */
  private void joinOlder() {
    for (int i = 0; i < count * WIDTH; i += WIDTH) {
      syncs.add(runs[i], runs[i + 2], runs[i + 3], spacing);
    }
    kept = syncs.kept();
    if (spacing > 1) {
      join(spacing, RESOLUTION);
    }
  }

  /**
   * Joins neighbours up to {@code most} records, and to a share of the records after them unless 0.
   */
  private void join(long most, int share) {
    long end = count == 0 ? 0 : runs[count * WIDTH - 2] + runs[count * WIDTH - 1];
    int kept = 0; // index of the run that the next one may join
    for (int i = 1; i < count; i++) {
      int run = kept * WIDTH;
      int next = i * WIDTH;
      long after = end - runs[next + 2] - runs[next + 3];
      long limit = share == 0 ? most : Math.min(most, after / share);
      boolean isNeighbour = runs[run + 2] + runs[run + 3] == runs[next + 2];
      boolean isInOrder = runs[run + 1] <= runs[next];
      boolean isFree = share == 0 || !holdsSync(runs[run], runs[run + 1]);
      if (isNeighbour && isInOrder && isFree && runs[run + 3] + runs[next + 3] <= limit) {
        runs[run + 1] = runs[next + 1];
        runs[run + 3] += runs[next + 3];
      } else {
        System.arraycopy(runs, next, runs, ++kept * WIDTH, WIDTH);
      }
    }
    count = Math.min(count, kept + 1);
  }

  private boolean holdsSync(long from, long until) {
    int at = Arrays.binarySearch(kept, from);
    int next = at < 0 ? -at - 1 : at;
    return next < kept.length && kept[next] < until;
  }

  private int at(int range) {
    return Math.floorMod(oldest + 2 * range, sent.length);
  }

  private void growSent() {
    long[] larger = new long[2 * sent.length];
    int untilEnd = sent.length - oldest;
    System.arraycopy(sent, oldest, larger, 0, untilEnd);
    System.arraycopy(sent, 0, larger, untilEnd, oldest);
    sent = larger;
    oldest = 0;
  }
}
