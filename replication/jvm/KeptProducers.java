package replication;

import java.time.Duration;
import org.apache.kafka.clients.producer.KafkaProducer;
import scala.collection.Iterator;

/**
 * The producers that Spark's Kafka sink keeps in this process from one batch to the next.
 *
 * <p>Spark closes them by a shutdown hook, which waits until all that they hold is written: for ever, if
 * the target does not answer. The process would live on after its lease. As {@link KeptConsumers} does,
 * this reads Spark's fields by name; where that fails, the process waits.
 */
final class KeptProducers {
  private static final String PACKAGE = "org.apache.spark.sql.kafka010.producer.";
  private static final Duration PATIENCE = Duration.ofSeconds(3);

  /** Closes all; what the target does not take in this time is given up, and copied by the next start. */
  static void close() {
    try {
      Class<?> sink = Class.forName(PACKAGE + "InternalKafkaProducerPool$");
      Object pool = KeptConsumers.field(sink, "pool").get(null);
      Object cache = KeptConsumers.field(pool.getClass(), "cache").get(pool);
      long deadline = System.nanoTime() + PATIENCE.toNanos(); // of all together
      Iterator<?> entries = ((scala.collection.Map<?, ?>) cache).valuesIterator();
      while (entries.hasNext()) {
        Object entry = entries.next();
        Object kept = KeptConsumers.field(entry.getClass(), "producer").get(entry);
        Object producer = KeptConsumers.field(kept.getClass(), "producer").get(kept);
        long left = Math.max(0, deadline - System.nanoTime());
        ((KafkaProducer<?, ?>) producer).close(Duration.ofNanos(left));
      }
    } catch (Exception | LinkageError e) {
      // The hook closes the others, and waits for them.
    }
  }

  private KeptProducers() {}
}
