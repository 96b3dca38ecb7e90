package replication.plugin;

import java.lang.reflect.Field;
import java.time.Duration;
import org.apache.commons.pool2.impl.GenericKeyedObjectPool;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * The consumers that Spark's Kafka source keeps in this process from one batch to the next.
 *
 * <p>Spark closes them by a shutdown hook. A close waits for the answer to the last fetch, which an
 * idle partition's broker gives after {@code fetch.max.wait.ms}: the process would end that late.
 * Spark lets nobody in, so its fields are read by name. Where a release has renamed one, or has a
 * Kafka client of its own, the process waits.
 */
final class KeptConsumers {
  private static final String PACKAGE = "org.apache.spark.sql.kafka010.consumer.";

  /** Closes those that no task uses, without a wait. */
  static void close() {
    try {
      Class<?> source = Class.forName(PACKAGE + "KafkaDataConsumer$");
      Object pool = field(source, "consumerPool").get(null);
      @SuppressWarnings("unchecked")
      GenericKeyedObjectPool<Object, Object> kept =
          (GenericKeyedObjectPool<Object, Object>) field(pool.getClass(), "pool").get(pool);
      for (Object partition : kept.getKeys()) {
        while (kept.getNumIdle(partition) > 0) {
          Object entry = kept.borrowObject(partition);
          ((KafkaConsumer<?, ?>) field(entry.getClass(), "consumer").get(entry))
              .close(Duration.ZERO);
          kept.invalidateObject(partition, entry);
        }
      }
    } catch (Exception | LinkageError e) {
      // The hook closes the others, and waits for them.
    }
  }

  static Field field(Class<?> owner, String name) throws NoSuchFieldException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private KeptConsumers() {}
}
