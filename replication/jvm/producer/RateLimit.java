package replication.producer;

import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * What this process may send of a flow a second: of all its topics, or of some together.
 *
 * <p>A bucket fills at the rate, up to what a seventh of a second gives. A record may be sent while
 * the bucket is not below zero, and then takes its size out, so the next ones wait until the debt
 * is paid. Hence a record that is larger than what a second gives passes, and is paid for
 * afterwards.
 */
public final class RateLimit {
  /** A rate that limits nothing. */
  static final double NONE = -1;

  /** Seconds of the rate that may be caught up at once, such as after a thread that woke late. */
  private static final double BURST = 0.15;

  private static final long LONGEST_WAIT = 1_000_000_000; // nanoseconds; then it looks again

  /** The time, and how to let it pass. */
  interface Clock {
    long nanos();

    /** Waits on {@code monitor}, which the caller holds, at least that long unless notified. */
    void await(Object monitor, long nanos) throws InterruptedException;
  }

  static final Clock REAL =
      new Clock() {
        @Override
        public long nanos() {
          return System.nanoTime();
        }

        @Override
        @SuppressWarnings("WaitNotInLoop") // the caller's
        public void await(Object monitor, long nanos) throws InterruptedException {
          monitor.wait(nanos / 1_000_000 + 1); // what passes beyond the time is caught up
        }
      };

  private static final class Bucket {
    private double rate = NONE;
    private double left;

    void set(double wanted) {
      left = rate == NONE || wanted == NONE ? 0 : Math.min(left, BURST * wanted);
      rate = wanted;
    }

    void fill(double seconds) {
      left = Math.min(left + seconds * rate, BURST * rate);
    }

    boolean isShort() {
      return rate != NONE && left < 0;
    }

    double secondsShort() {
      return isShort() ? -left / rate : 0; // endless if the rate is 0
    }

    void take(int amount) {
      left -= amount;
    }
  }

  private final Clock clock;
  private final Map<String, String> topics; // remote to upstream; null for all
  private final Set<String> upstream;
  private final Bucket bytes = new Bucket();
  private final Bucket records = new Bucket();
  private long filledAt;
  private boolean isOver;

  private int waiting; // threads
  private long notedAt; // until then it is known how long some thread has waited
  private long reportedAt;
  private long waitedNanos; // these three since the last report
  private long passedBytes;
  private long passedRecords;

  RateLimit(Map<String, String> topics, Clock clock) {
    this.topics = topics;
    upstream = topics == null ? Set.of() : Set.copyOf(topics.values());
    this.clock = clock;
    filledAt = clock.nanos();
    reportedAt = filledAt;
    notedAt = filledAt;
  }

  boolean covers(String topic) {
    return topics == null || topics.containsKey(topic);
  }

  /** Whether it is of an upstream topic, and not of the whole flow. */
  public boolean isOfUpstream(String topic) {
    return upstream.contains(topic);
  }

  boolean isOf(Map<String, String> others) {
    return Objects.equals(topics, others);
  }

  /** Sets the rates; what waits goes by them at once. */
  synchronized void set(double bytesPerSecond, double recordsPerSecond) {
    fill(clock.nanos()); // what has passed, at the old rates
    bytes.set(bytesPerSecond);
    records.set(recordsPerSecond);
    notifyAll();
  }

  /** Lets everything through from now on. */
  synchronized void end() {
    isOver = true;
    notifyAll();
  }

  /** Waits until a record of {@code size} bytes may be sent. */
  synchronized void take(int size) throws InterruptedException {
    fill(clock.nanos());
    if (isShort()) {
      await();
    }
    bytes.take(size);
    records.take(1);
    passedBytes += size;
    passedRecords++;
  }

  /** Whether a record would wait now. */
  public synchronized boolean isUsedUp() {
    fill(clock.nanos());
    return isShort();
  }

  /** Notes that a record waits which nobody hands over yet; {@link #endWait} follows. */
  public synchronized void beginWait() {
    note(clock.nanos());
    waiting++;
  }

  /** Notes that it does not wait any more. */
  public synchronized void endWait() {
    note(clock.nanos());
    waiting--;
  }

  private void await() throws InterruptedException {
    beginWait();
    try {
      while (isShort()) {
        double seconds = Math.max(bytes.secondsShort(), records.secondsShort());
        clock.await(this, (long) Math.min(seconds * 1e9, LONGEST_WAIT));
        fill(clock.nanos());
      }
    } finally {
      endWait();
    }
  }

  private boolean isShort() {
    return !isOver && (bytes.isShort() || records.isShort());
  }

  private void fill(long now) {
    double seconds = (now - filledAt) / 1e9;
    filledAt = now;
    bytes.fill(seconds);
    records.fill(seconds);
  }

  private void note(long now) {
    waitedNanos += waiting > 0 ? now - notedAt : 0;
    notedAt = now;
  }

  /**
   * Appends {@code bytesPerSecond,recordsPerSecond,bytes,records,waitedNanos,nanos}: the rates in
   * force, then what has passed since the last report, how long some record has waited, and the
   * time since then.
   */
  synchronized void report(StringBuilder line) {
    long now = clock.nanos();
    note(now);
    line.append(bytes.rate).append(',').append(records.rate).append(',');
    line.append(passedBytes).append(',').append(passedRecords).append(',');
    line.append(waitedNanos).append(',').append(now - reportedAt);
    reportedAt = now;
    waitedNanos = 0;
    passedBytes = 0;
    passedRecords = 0;
  }
}
