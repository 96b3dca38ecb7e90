package replication.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The next offset of each partition, in JSON as Spark's own Kafka source has it. */
final class SourceOffsets extends Offset implements Serializable {
  private static final long serialVersionUID = 1;

  private final TreeMap<TopicPartition, Long> next =
      new TreeMap<>(
          (Comparator<TopicPartition> & Serializable)
              (one, other) -> {
                int order = one.topic().compareTo(other.topic());
                return order != 0 ? order : Integer.compare(one.partition(), other.partition());
              });
  private final HashMap<TopicPartition, Integer> epochs = new HashMap<>();
  private transient String json;

  static SourceOffsets of(Map<TopicPartition, Long> next) {
    SourceOffsets offsets = new SourceOffsets();
    offsets.next.putAll(next);
    return offsets;
  }

  /** The same with the epochs of the leaders that have the records before, as far as known. */
  static SourceOffsets of(Map<TopicPartition, Long> next, Map<TopicPartition, Integer> epochs) {
    SourceOffsets offsets = of(next);
    offsets.epochs.putAll(epochs);
    return offsets;
  }

  /** Those that are known. They are not part of the JSON, which others read. */
  Map<TopicPartition, Integer> epochs() {
    return epochs;
  }

  static SourceOffsets parse(String json) {
    SourceOffsets offsets = new SourceOffsets();
    try {
      Map<?, ?> topics = new ObjectMapper().readValue(json, Map.class);
      topics.forEach(
          (topic, partitions) ->
              ((Map<?, ?>) partitions)
                  .forEach(
                      (number, offset) ->
                          offsets.next.put(
                              new TopicPartition((String) topic, Integer.parseInt((String) number)),
                              ((Number) offset).longValue())));
    } catch (JsonProcessingException | ClassCastException | NumberFormatException e) {
      throw new IllegalArgumentException("not offsets by topic and partition: " + json, e);
    }
    return offsets;
  }

  SortedMap<TopicPartition, Long> map() {
    return Collections.unmodifiableSortedMap(next);
  }

  @Override
  public String json() {
    if (json == null) {
      StringBuilder text = new StringBuilder(24 * next.size()).append('{');
      String topic = null;
      for (Map.Entry<TopicPartition, Long> entry : next.entrySet()) {
        TopicPartition tp = entry.getKey();
        if (tp.topic().equals(topic)) {
          text.append(',');
        } else {
          text.append(topic == null ? "\"" : "},\"").append(tp.topic()).append("\":{");
          topic = tp.topic();
        }
        text.append('"').append(tp.partition()).append("\":").append(entry.getValue());
      }
      json = text.append(topic == null ? "}" : "}}").toString();
    }
    return json;
  }
}
