package replication.calls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.Function;
import org.apache.kafka.common.KafkaFuture;

/**
 * What became of a request, for Python: {@code {"ok": ...}}, or the error as {@link ClientErrors}
 * writes it.
 */
final class Settled {
  private Settled() {}

  /**
   * Waits for {@code future} and puts what became of it into {@code results}, under {@code key}.
   */
  static <T> void put(
      ObjectNode results, String key, KafkaFuture<T> future, Function<T, JsonNode> write) {
    try {
      JsonNode written = write.apply(future.get());
      results.putObject(key).set("ok", written);
    } catch (Exception failure) {
      results.set(key, ClientErrors.node(interrupted(failure)));
    }
  }

  /** {@code failure}; a thread that was interrupted stays so. */
  static Exception interrupted(Exception failure) {
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
    return failure;
  }
}
