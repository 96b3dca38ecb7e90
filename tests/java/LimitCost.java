package replication.producer;

import java.util.Arrays;

/**
 * What a limit costs a record: nanoseconds of one thread, the least of several rounds.
 *
 * <p>Without a limit, a record asks whether there is one. With one that it need not wait for, it
 * takes its size out of the bucket.
 */
public final class LimitCost {
  private static final int RECORDS = 20_000_000;
  private static final int ROUNDS = 7;

  private LimitCost() {}

  public static void main(String[] arguments) throws InterruptedException {
    Throttle throttle = Throttle.of("A->B");
    double loop = least(null);
    System.out.printf("without a limit %.2f ns%n", least(throttle) - loop);
    throttle.set("1", "1.0E15,1.0E15,*");
    System.out.printf("limit of the flow %.2f ns%n", least(throttle) - loop);
    throttle.set("2", "1.0E15,1.0E15,A.other:other,A.orders:orders;1.0E15,1.0E15,*");
    System.out.printf("limits of flow and topic %.2f ns%n", least(throttle) - loop);
  }

  private static double least(Throttle throttle) throws InterruptedException {
    double[] rounds = new double[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
      rounds[i] = round(throttle);
    }
    return Arrays.stream(rounds).min().orElseThrow();
  }

  private static double round(Throttle throttle) throws InterruptedException {
    long began = System.nanoTime();
    long sum = 0;
    for (int i = 0; i < RECORDS; i++) {
      sum = 31 * sum + i; // so that the loop without a throttle is not left out
      if (throttle != null && throttle.isLimited()) {
        throttle.take("A.orders", 240);
      }
    }
    long nanos = System.nanoTime() - began;
    return sum == 0 ? 0 : (double) nanos / RECORDS;
  }
}
