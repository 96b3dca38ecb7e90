package replication.source;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiPredicate;

/** The consumers of this process that wait for the next batch of their task. */
public final class SharedConsumers {
  /** Then the task runs on another executor, or its stream has ended. */
  private static final long IDLE_NANOS = TimeUnit.MINUTES.toNanos(5);

  private record Kept(SharedConsumer consumer, long since) {}

  private static final Map<String, Kept> KEPT = new ConcurrentHashMap<>();

  /** A consumer at the beginning of a batch. */
  static SharedConsumer take(TaskShare share, ClientSettings settings) {
    Kept kept = KEPT.remove(share.consumerKey());
    SharedConsumer taken = kept == null ? new SharedConsumer(settings) : kept.consumer;
    try {
      taken.begin(share.ranges());
      return taken;
    } catch (RuntimeException e) {
      taken.close();
      throw e;
    }
  }

  static void keep(TaskShare share, SharedConsumer consumer) {
    Kept other = KEPT.put(share.consumerKey(), new Kept(consumer, System.nanoTime()));
    if (other != null) {
      other.consumer.close();
    }
  }

  /** Closes those of a stream that has ended. */
  static void closeOf(String stream) {
    closeIf((key, kept) -> key.startsWith(stream));
  }

  /** Closes those that no task has taken for long. */
  public static void closeIdle() {
    long now = System.nanoTime();
    closeIf((key, kept) -> now - kept.since > IDLE_NANOS);
  }

  /** Closes all, without a wait, when the process ends. */
  public static void closeAll() {
    closeIf((key, kept) -> true);
    Relay.endAll();
  }

  private static void closeIf(BiPredicate<String, Kept> isOver) {
    KEPT.forEach(
        (key, kept) -> {
          if (isOver.test(key, kept) && KEPT.remove(key, kept)) {
            kept.consumer.close();
          }
        });
  }

  private SharedConsumers() {}
}
