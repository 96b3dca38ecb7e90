package replication.source;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A consumer of many partitions, and what it has fetched of them beyond the end of the last batch.
 *
 * <p>It is kept from one batch of a task to the next, which goes on without asking the broker again
 * if it begins where the last one ended.
 */
final class SharedConsumer {
  private static final Duration LOOK = Duration.ofMillis(10);
  private static final long KEPT_NANOS = TimeUnit.MINUTES.toNanos(5);
  private static final Map<String, SharedConsumer> KEPT = new ConcurrentHashMap<>();

  /** One partition: {@code next} is the offset after the last record that was passed on. */
  static final class Reading {
    final TopicPartition partition;
    final UTF8String topic;
    final Integer number;
    private long next;
    private long until;
    private boolean isDone;
    private List<ConsumerRecord<byte[], byte[]>> records = List.of();
    private int at;

    Reading(TopicPartition partition) {
      this.partition = partition;
      topic = UTF8String.fromString(partition.topic());
      number = partition.partition();
    }
  }

  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Map<TopicPartition, Reading> readings = new HashMap<>();
  private final ArrayDeque<Reading> ready = new ArrayDeque<>();
  private Reading current;
  private int open;
  private long timeoutMs;
  private long keptAt;

  private SharedConsumer(Map<String, Object> client) {
    consumer = new KafkaConsumer<>(client);
  }

  /** The consumer of a task, at the beginning of its share. */
  static SharedConsumer take(Share share) {
    long now = System.nanoTime();
    KEPT.forEach(
        (key, old) -> {
          if (now - old.keptAt > KEPT_NANOS && KEPT.remove(key, old)) {
            old.close();
          }
        });
    SharedConsumer kept = KEPT.remove(share.key());
    SharedConsumer taken = kept == null ? new SharedConsumer(share.client) : kept;
    try {
      taken.begin(share);
      return taken;
    } catch (RuntimeException e) {
      taken.close();
      throw e;
    }
  }

  void keep(Share share) {
    keptAt = System.nanoTime();
    SharedConsumer other = KEPT.put(share.key(), this);
    if (other != null) {
      other.close();
    }
  }

  void close() {
    consumer.close(Duration.ZERO); // else it waits for the answer to its last fetch
  }

  static void closeKept(String stream) {
    for (Iterator<Map.Entry<String, SharedConsumer>> all = KEPT.entrySet().iterator();
        all.hasNext(); ) {
      Map.Entry<String, SharedConsumer> entry = all.next();
      if (entry.getKey().startsWith(stream)) {
        all.remove();
        entry.getValue().close();
      }
    }
  }

  private void begin(Share share) {
    timeoutMs = share.timeoutMs;
    ready.clear();
    current = null;
    List<TopicPartition> partitions = new ArrayList<>();
    share.ranges.forEach(range -> partitions.add(range.partition()));
    consumer.assign(partitions);
    consumer.resume(consumer.paused());
    readings.keySet().retainAll(consumer.assignment());
    for (Share.Range range : share.ranges) {
      Reading reading = readings.get(range.partition());
      if (reading == null || reading.next != range.from()) {
        reading = new Reading(range.partition());
        reading.next = range.from();
        readings.put(range.partition(), reading);
        consumer.seek(range.partition(), range.from());
      }
      reading.until = range.until();
      reading.isDone = false;
      if (reading.at < reading.records.size()) {
        ready.add(reading);
      }
    }
    open = share.ranges.size();
  }

  /** Which partition the last record was of. */
  Reading current() {
    return current;
  }

  /** The next record of a share that has an end; null at the end. */
  ConsumerRecord<byte[], byte[]> next() {
    long waitsSince = 0;
    while (open > 0) {
      ConsumerRecord<byte[], byte[]> record = polled();
      if (record != null) {
        return record;
      }
      if (open > 0 && !poll(LOOK)) {
        long now = System.nanoTime();
        waitsSince = waitsSince == 0 ? now : waitsSince;
        if (!finishPassed() && now - waitsSince > TimeUnit.MILLISECONDS.toNanos(timeoutMs)) {
          throw new TimeoutException("no record was fetched for " + timeoutMs + " ms");
        }
      }
    }
    return null;
  }

  /** The next record of a share without an end; null if none comes in time. */
  ConsumerRecord<byte[], byte[]> next(long patienceMs) {
    ConsumerRecord<byte[], byte[]> record = polled();
    if (record != null) {
      return record;
    }
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMs);
    while (true) {
      long left = end - System.nanoTime();
      if (left <= 0) {
        return null;
      }
      if (poll(Duration.ofNanos(left))) {
        return polled();
      }
    }
  }

  private ConsumerRecord<byte[], byte[]> polled() {
    while (true) {
      if (current == null) {
        current = ready.poll();
        if (current == null) {
          return null;
        }
      }
      Reading reading = current;
      if (reading.at == reading.records.size()) {
        reading.records = List.of();
        reading.at = 0;
        if (reading.next >= reading.until) {
          finish(reading);
        }
        current = null;
        continue;
      }
      ConsumerRecord<byte[], byte[]> record = reading.records.get(reading.at);
      if (record.offset() >= reading.until) {
        finish(reading);
        current = null;
        continue;
      }
      reading.at++;
      reading.next = record.offset() + 1;
      return record;
    }
  }

  private void finish(Reading reading) {
    if (!reading.isDone) {
      reading.isDone = true;
      reading.next = reading.until; // where the next batch begins
      open--;
      consumer.pause(List.of(reading.partition));
    }
  }

  private boolean poll(Duration patience) {
    try {
      ConsumerRecords<byte[], byte[]> polled = consumer.poll(patience);
      for (TopicPartition tp : polled.partitions()) {
        Reading reading = readings.get(tp);
        reading.records = polled.records(tp);
        reading.at = 0;
        ready.add(reading);
      }
      return !polled.isEmpty();
    } catch (OffsetOutOfRangeException e) {
      throw new IllegalStateException("KAFKA_DATA_LOSS: " + e.getMessage(), e);
    }
  }

  /** Ends partitions whose last offsets have no records: those of compaction and transactions. */
  private boolean finishPassed() {
    int before = open;
    for (Reading reading : readings.values()) {
      if (!reading.isDone && consumer.position(reading.partition, LOOK) >= reading.until) {
        finish(reading);
      }
    }
    return open < before;
  }

  SourceOffsets offsets() {
    SourceOffsets offsets = new SourceOffsets();
    readings.values().forEach(reading -> offsets.put(reading.partition, reading.next));
    return offsets;
  }
}
