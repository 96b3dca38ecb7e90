package replication.producer;

import java.util.Arrays;

/** How many durations fall into each bucket, their sum and the longest. Not safe for threads. */
public final class Durations {
  /** The longest of each bucket, as in figures/histogram.py; the last bucket has no bound. */
  static final long[] BOUNDS_MICROS = {
    1_000L,
    2_000L,
    5_000L,
    10_000L,
    20_000L,
    50_000L,
    100_000L,
    200_000L,
    500_000L,
    1_000_000L,
    2_000_000L,
    5_000_000L,
    10_000_000L,
    20_000_000L,
    60_000_000L,
    300_000_000L,
    900_000_000L,
    3_600_000_000L
  };

  private final long[] counts = new long[BOUNDS_MICROS.length + 1];
  private long count;
  private long micros;
  private long longest; // since the last time that it was forgotten

  /** Adds one; one that is negative, since clocks differ, is none. */
  void add(long duration) {
    long known = Math.max(0, duration);
    int bucket = 0;
    while (bucket < BOUNDS_MICROS.length && known > BOUNDS_MICROS[bucket]) {
      bucket++;
    }
    counts[bucket]++;
    count++;
    micros += known;
    longest = Math.max(longest, known);
  }

  boolean isEmpty() {
    return count == 0;
  }

  /** Forgets all of them. */
  void clear() {
    Arrays.fill(counts, 0);
    count = 0;
    micros = 0;
    longest = 0;
  }

  /** Forgets the longest, so that the next text has that of later ones. */
  public void forgetLongest() {
    longest = 0;
  }

  /** Adds those of a text that {@link #appendTo} has made. */
  public void add(String text) {
    String[] fields = text.split(",");
    micros += Long.parseLong(fields[0]);
    longest = Math.max(longest, Long.parseLong(fields[1]));
    for (int i = 2; i < fields.length; i++) {
      int colon = fields[i].indexOf(':');
      long more = Long.parseLong(fields[i].substring(colon + 1));
      counts[Integer.parseInt(fields[i].substring(0, colon))] += more;
      count += more;
    }
  }

  /**
   * Appends the sum, the longest, and each bucket that is not empty: {@code 3500,1400,0:12,1:1}.
   */
  public StringBuilder appendTo(StringBuilder text) {
    text.append(micros).append(',').append(longest);
    for (int i = 0; i < counts.length; i++) {
      if (counts[i] > 0) {
        text.append(',').append(i).append(':').append(counts[i]);
      }
    }
    return text;
  }
}
