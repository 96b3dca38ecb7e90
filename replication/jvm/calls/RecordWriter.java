package replication.calls;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's producer for the few records of an internal topic. Sending never blocks the caller. */
public final class RecordWriter {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Cleaner CLEANER =
      Cleaner.create(); // Python drops writers without closing them
  private final KafkaProducer<byte[], byte[]> producer;
  private final BlockingQueue<ObjectNode> finished = new LinkedBlockingQueue<>();
  private final ExecutorService sender; // the client blocks until it knows the topic
  private long last; // number of a call of `finished`
  private ArrayNode answer = JSON.createArrayNode();

  public RecordWriter(Map<String, String> properties) {
    var bytes = new ByteArraySerializer();
    KafkaProducer<byte[], byte[]> created =
        new KafkaProducer<>(new HashMap<>(properties), bytes, bytes);
    ExecutorService started =
        Executors.newSingleThreadExecutor(
            task -> {
              Thread thread = new Thread(task, "replication-record-writer");
              thread.setDaemon(true);
              return thread;
            });
    producer = created;
    sender = started;
    CLEANER.register(
        this,
        () -> {
          started.shutdownNow();
          created.close(Duration.ZERO);
        });
  }

  /**
   * Sends a record; {@link #finished} tells {@code number} once it is acknowledged or has failed,
   * and when the broker has stamped it, -1 where it has not.
   */
  public void send(int number, String topic, int partition, byte[] key, byte[] value) {
    long created = System.currentTimeMillis();
    var record = new ProducerRecord<>(topic, partition, created, key, value);
    sender.execute(
        () -> {
          try {
            producer.send(
                record,
                (metadata, failure) -> {
                  // another time than its own is the broker's
                  boolean stamped = failure == null && metadata.timestamp() != created;
                  finish(number, failure, stamped ? metadata.timestamp() : -1);
                });
          } catch (
              Throwable failure) { // whoever waits for the record is to be told of an error, too
            finish(number, failure instanceof Exception e ? e : new KafkaException(failure), -1);
          }
        });
  }

  private void finish(int number, Exception failure, long stamped) {
    ObjectNode node = failure == null ? JSON.createObjectNode() : ClientErrors.node(failure);
    finished.add(node.put("number", number).put("stamped", stamped));
  }

  /**
   * The records finished since the last call, each with its error if it failed; waits for one if
   * there is none. A call of the same number is the same one: py4j makes it once more where an
   * answer is lost.
   */
  public synchronized String finished(long call, int waitMs) throws InterruptedException {
    if (call != last) {
      last = call;
      answer = JSON.createArrayNode();
      ObjectNode first = finished.poll(waitMs, TimeUnit.MILLISECONDS);
      for (ObjectNode node = first; node != null; node = finished.poll()) {
        answer.add(node);
      }
    }
    return answer.toString();
  }
}
