package replication.plugin;

import java.util.Arrays;
import java.util.Comparator;

/**
 * Shares a limit out to executors, by what each would send.
 *
 * <p>Whoever wants less than an equal part of what is left gets a quarter more than that, so that
 * it can grow, and the others have equal parts of the rest. Hence the shares are steady while all
 * want more than there is, and nothing stays with an executor that has nothing to send. What nobody
 * wants is shared equally.
 */
final class Shares {
  private static final double ROOM = 1.25;

  /** The part of an equal part that an executor without records has, to begin with. */
  private static final double LEAST = 1 / 64.0;

  private Shares() {}

  /** The share of each of {@code demands}; together not more than {@code limit}. */
  static double[] of(double limit, double... demands) {
    int count = demands.length;
    Integer[] smallestFirst = new Integer[count];
    Arrays.setAll(smallestFirst, i -> i);
    Arrays.sort(smallestFirst, Comparator.comparingDouble(i -> demands[i]));
    double[] shares = new double[count];
    double left = limit;
    int others = count;
    for (int i : smallestFirst) {
      double wanted = demands[i] * ROOM + limit / count * LEAST;
      shares[i] = Math.min(wanted, left / others--);
      left -= shares[i];
    }
    for (int i = 0; i < count; i++) {
      shares[i] += Math.max(0, left) / count;
    }
    return shares;
  }
}
