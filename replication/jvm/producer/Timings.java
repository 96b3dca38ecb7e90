package replication.producer;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * How long records of one partition take: from their timestamp, and from being handed over, to the
 * target's acknowledgement. Of each n-th record, so that a report has about {@link #WANTED} of them
 * however many records there are. Guarded by its {@link PartitionCopy}.
 */
final class Timings {
  private static final int WANTED = 256;
  private static final int MOST = 512; // in flight; then records are passed over
  private static final int WIDTH = 3; // numbers of a sample: source offset, timestamp, handed over
  private static final long NONE = Long.MAX_VALUE;

  private final Durations latency = new Durations();
  private final Durations transfer = new Durations();
  private long[] samples = new long[16 * WIDTH]; // a ring
  private int oldest; // an index of samples
  private int count;
  private long next = NONE; // the source offset of the oldest sample
  private int passed; // records since the last report
  private int mask; // a record is taken if these bits of its number are 0
  private long liveFrom; // epoch milliseconds
  private long newest = -1; // of the timestamps since the last report, on the source

  /** Records whose timestamp is before now are a backlog: how old they are says nothing. */
  void beginGeneration() {
    liveFrom = System.currentTimeMillis();
    latency.clear();
    transfer.clear();
    newest = -1;
  }

  /** Forgets what was handed over: it is acknowledged, or nobody knows. */
  void forget() {
    oldest = 0;
    count = 0;
    next = NONE;
  }

  /** A record is about to be handed over; {@code timestamp} is -1 if it has none. */
  void sent(long source, long timestamp) {
    if ((passed++ & mask) == 0 && count < MOST) {
      take(source, timestamp);
    }
  }

  private void take(long source, long timestamp) {
    if ((count + 1) * WIDTH > samples.length) {
      grow();
    }
    int at = (oldest + count * WIDTH) % samples.length;
    samples[at] = source;
    samples[at + 1] = timestamp;
    samples[at + 2] = System.nanoTime();
    next = count++ == 0 ? source : next;
  }

  /** The record at {@code source} was not handed over after all; it was the newest. */
  void notSent(long source) {
    if (count > 0 && samples[(oldest + (count - 1) * WIDTH) % samples.length] == source) {
      count--;
      next = count == 0 ? NONE : next;
    }
  }

  /** The record at {@code source} is acknowledged, and so are those before it. */
  void acknowledged(long source) {
    if (source >= next) {
      measure(source);
    }
  }

  private void measure(long source) {
    while (next < source) {
      drop();
    }
    if (next == source) {
      newest = Math.max(newest, samples[oldest + 1]);
      transfer.add(TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - samples[oldest + 2]));
      if (samples[oldest + 1] >= liveFrom) {
        long millis = System.currentTimeMillis() - samples[oldest + 1];
        latency.add(TimeUnit.MILLISECONDS.toMicros(millis));
      }
      drop();
    }
  }

  private void drop() {
    oldest = (oldest + WIDTH) % samples.length;
    next = --count == 0 ? NONE : samples[oldest];
  }

  private void grow() {
    long[] larger = Arrays.copyOf(samples, 2 * samples.length);
    System.arraycopy(samples, oldest, larger, 0, samples.length - oldest);
    System.arraycopy(samples, 0, larger, samples.length - oldest, oldest);
    samples = larger;
    oldest = 0;
  }

  boolean isEmpty() {
    return transfer.isEmpty();
  }

  /** The newest timestamp of the source's records since the last report; -1 if none has one. */
  long newest() {
    return newest;
  }

  /** Appends both since the last call, and chooses how many records the next report takes. */
  void report(StringBuilder lines) {
    latency.appendTo(lines).append('\t');
    transfer.appendTo(lines);
    latency.clear();
    transfer.clear();
    mask = Math.max(0, Integer.highestOneBit(passed / WANTED) - 1);
    passed = 0;
    newest = -1;
  }
}
