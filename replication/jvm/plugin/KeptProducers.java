package replication.plugin;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.KafkaProducer;
import replication.producer.PreserveTimestamps;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The producers that Spark's Kafka sink keeps in this process from one batch to the next.
 *
 * <p>Spark closes them by a shutdown hook, which waits until all that they hold is written: for
 * ever, if the target does not answer. The process would live on after its lease. Records whose
 * topic was deleted wait without an end as well, and would be the first that the next topic of that
 * name gets. Spark lets nobody in, so its fields are read by name. Where a release has renamed one,
 * or has a Kafka client of its own, the process waits.
 */
public final class KeptProducers {
  private static final String PACKAGE = "org.apache.spark.sql.kafka010.producer.";
  private static final Duration PATIENCE = Duration.ofSeconds(3);

  /**
   * Closes all; what the target does not take in this time is given up, and copied by the next
   * start.
   */
  static void close() {
    try {
      long deadline = System.nanoTime() + PATIENCE.toNanos(); // of all together
      Object pool = pool();
      List<Object> entries;
      synchronized (pool) {
        entries = new ArrayList<>(CollectionConverters.asJava(cache(pool)).values());
      }
      for (Object entry : entries) {
        producer(entry).close(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
      }
    } catch (Exception | LinkageError e) {
      // The hook closes the others, and waits for them.
    }
  }

  /** Closes the producers that have records of {@code flow} in flight, and gives these up. */
  static void abandon(String flow) {
    abandon(PreserveTimestamps.clientsWithRecords(flow));
  }

  /** Closes the producers with these client ids at once, and gives up what they have in flight. */
  public static void abandon(Set<String> clients) {
    if (clients.isEmpty()) {
      return;
    }
    try {
      for (KafkaProducer<?, ?> producer : removed(clients)) {
        producer.close(Duration.ZERO);
      }
    } catch (Exception | LinkageError e) {
      // The driver waits for these records, and says so.
    }
  }

  /** Takes the producers of {@code clients} out of the pool, so that no task gets one any more. */
  private static List<KafkaProducer<?, ?>> removed(Set<String> clients)
      throws ReflectiveOperationException {
    List<KafkaProducer<?, ?>> found = new ArrayList<>();
    Object pool = pool();
    synchronized (pool) {
      HashMap<Seq<Tuple2<String, Object>>, Object> cache = cache(pool);
      for (Seq<Tuple2<String, Object>> key : CollectionConverters.asJava(cache.keySet().toSeq())) {
        for (Tuple2<String, Object> property : CollectionConverters.asJava(key)) {
          if (property._1().equals("client.id")
              && clients.contains(String.valueOf(property._2()))) {
            found.add(producer(cache.apply(key)));
            cache.remove(key);
            break;
          }
        }
      }
    }
    return found;
  }

  private static Object pool() throws ReflectiveOperationException {
    return field(Class.forName(PACKAGE + "InternalKafkaProducerPool$"), "pool").get(null);
  }

  @SuppressWarnings("unchecked")
  private static HashMap<Seq<Tuple2<String, Object>>, Object> cache(Object pool)
      throws NoSuchFieldException, IllegalAccessException {
    return (HashMap<Seq<Tuple2<String, Object>>, Object>) field(pool.getClass(), "cache").get(pool);
  }

  private static KafkaProducer<?, ?> producer(Object entry)
      throws NoSuchFieldException, IllegalAccessException {
    Object kept = field(entry.getClass(), "producer").get(entry);
    return (KafkaProducer<?, ?>) field(kept.getClass(), "producer").get(kept);
  }

  private static Field field(Class<?> owner, String name) throws NoSuchFieldException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private KeptProducers() {}
}
