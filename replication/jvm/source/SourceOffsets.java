package replication.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Comparator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** The next offset of each partition, in JSON as Spark's own Kafka source has it. */
final class SourceOffsets extends Offset implements PartitionOffset {
  private static final long serialVersionUID = 1;

  private final TreeMap<TopicPartition, Long> next =
      new TreeMap<>(
          (Comparator<TopicPartition> & java.io.Serializable)
              (a, b) -> {
                int topics = a.topic().compareTo(b.topic());
                return topics != 0 ? topics : Integer.compare(a.partition(), b.partition());
              });
  private transient String json;

  static SourceOffsets parse(String json) {
    try {
      Map<?, ?> topics = new ObjectMapper().readValue(json, Map.class);
      SourceOffsets offsets = new SourceOffsets();
      topics.forEach(
          (topic, partitions) ->
              ((Map<?, ?>) partitions)
                  .forEach(
                      (partition, offset) ->
                          offsets.put(
                              new TopicPartition(
                                  (String) topic, Integer.parseInt((String) partition)),
                              ((Number) offset).longValue())));
      return offsets;
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not a map of offsets: " + json, e);
    }
  }

  void put(TopicPartition partition, long offset) {
    next.put(partition, offset);
  }

  void putAll(SourceOffsets others) {
    next.putAll(others.next);
  }

  Map<TopicPartition, Long> map() {
    return next;
  }

  @Override
  public String json() {
    if (json == null) {
      StringBuilder text = new StringBuilder(24 * next.size()).append('{');
      String topic = null;
      for (Map.Entry<TopicPartition, Long> entry : next.entrySet()) {
        TopicPartition tp = entry.getKey();
        if (!tp.topic().equals(topic)) {
          text.append(topic == null ? "\"" : "},\"").append(tp.topic()).append("\":{");
          topic = tp.topic();
        } else {
          text.append(',');
        }
        text.append('"').append(tp.partition()).append("\":").append(entry.getValue());
      }
      json = text.append(topic == null ? "}" : "}}").toString();
    }
    return json;
  }
}
