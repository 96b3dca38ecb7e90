package replication.calls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
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

  /** What became of each of {@code futures}, as a JSON object by the names of their keys. */
  static <K, T> String all(
      Map<K, KafkaFuture<T>> futures, Function<K, String> name, Function<T, JsonNode> write) {
    ObjectNode results = JsonNodeFactory.instance.objectNode();
    futures.forEach((key, future) -> put(results, name.apply(key), future, write));
    return results.toString();
  }

  /** {@code failure}; a thread that was interrupted stays so. */
  static Exception interrupted(Exception failure) {
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
    return failure;
  }
}
