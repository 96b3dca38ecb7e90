package replication.calls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import replication.producer.OwnerOnly;

/**
 * Copies the few heartbeats that a drain finds where nothing else is new, by Kafka's clients alone:
 * for them Spark would take most of the drain's CPU. Records keep their partition, order, key,
 * value and headers.
 */
public final class HeartbeatCopy {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration POLL = Duration.ofMillis(100);
  private static final Duration PATIENCE = Duration.ofSeconds(3);

  private HeartbeatCopy() {}

  private static final class Window {
    private final long until;
    private final String remote;
    private long copied;
    private long bytes;
    private long newest = -1;

    private Window(long until, String remote) {
      this.until = until;
      this.remote = remote;
    }
  }

  /**
   * Copies {@code windows}, {@code [[topic, partition, from, until, remote topic], ...]}. When it
   * returns, the target has acknowledged all of them: {@code [[records, bytes, newest time], ...]}.
   */
  public static String copy(
      Map<String, String> consumerProperties,
      Map<String, String> producerProperties,
      String windows,
      boolean keepsTime,
      int timeoutMs)
      throws Exception {
    Map<TopicPartition, Window> open = new LinkedHashMap<>();
    Map<TopicPartition, Long> starts = new HashMap<>();
    for (JsonNode one : JSON.readTree(windows)) {
      var partition = new TopicPartition(one.get(0).asText(), one.get(1).asInt());
      starts.put(partition, one.get(2).asLong());
      open.put(partition, new Window(one.get(3).asLong(), one.get(4).asText()));
    }
    long deadline = System.nanoTime() + 1_000_000L * timeoutMs;
    var read = new ByteArrayDeserializer();
    var write = new ByteArraySerializer();
    var producer = new KafkaProducer<>(new HashMap<>(producerProperties), write, write);
    try (var consumer = new KafkaConsumer<>(new HashMap<>(consumerProperties), read, read)) {
      // a send that waits for metadata has had its lease checked before; here nothing is sent yet
      open.values().forEach(it -> producer.partitionsFor(it.remote));
      consumer.assign(open.keySet());
      starts.forEach(consumer::seek);
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      while (open.entrySet().stream()
          .anyMatch(it -> consumer.position(it.getKey()) < it.getValue().until)) {
        if (System.nanoTime() - deadline > 0) {
          throw new TimeoutException("the source gave no end of " + windows);
        }
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
          Window window = open.get(new TopicPartition(record.topic(), record.partition()));
          if (record.offset() < window.until) {
            sent.add(producer.send(copyOf(record, window, keepsTime)));
          }
        }
      }
      for (Future<RecordMetadata> one : sent) {
        await(one, producerProperties.get("client.id"), deadline);
      }
    } finally {
      producer.close(PATIENCE); // gives up what is left, else it would be sent after the lease
    }
    ArrayNode copied = JSON.createArrayNode();
    open.values().forEach(it -> copied.addArray().add(it.copied).add(it.bytes).add(it.newest));
    return copied.toString();
  }

  private static void await(Future<RecordMetadata> one, String clientId, long deadline)
      throws Exception {
    while (true) {
      try {
        one.get(POLL.toMillis(), TimeUnit.MILLISECONDS);
        return;
      } catch (java.util.concurrent.TimeoutException e) {
        if (OwnerOnly.hasPassed(clientId) || System.nanoTime() - deadline > 0) {
          throw new TimeoutException("the target did not take the heartbeats in time", e);
        }
      }
    }
  }

  private static ProducerRecord<byte[], byte[]> copyOf(
      ConsumerRecord<byte[], byte[]> record, Window window, boolean keepsTime) {
    window.copied++;
    window.bytes +=
        Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    window.newest = Math.max(window.newest, record.timestamp());
    Long time = keepsTime && record.timestamp() >= 0 ? record.timestamp() : null;
    return new ProducerRecord<>(
        window.remote, record.partition(), time, record.key(), record.value(), record.headers());
  }
}
