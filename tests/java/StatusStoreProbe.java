import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.util.SharedTopicAdmin;

/**
 * Prints what Kafka Connect's own store reads in a status topic, as one line of JSON.
 *
 * <p>Arguments: bootstrap.servers, the topic, a connector. Whatever the store warns of is on
 * stderr.
 */
final class StatusStoreProbe {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("status.storage.topic", arguments[1]);
    properties.put("status.storage.replication.factor", "1");
    properties.put("offset.storage.topic", "unused-offsets");
    properties.put("config.storage.topic", "unused-configs");
    properties.put("group.id", "status-store-probe");
    String converter = "org.apache.kafka.connect.converters.ByteArrayConverter";
    properties.put("key.converter", converter);
    properties.put("value.converter", converter);
    JsonConverter json = new JsonConverter();
    json.configure(Map.of("schemas.enable", "false"), false);
    Map<String, Object> admin = Map.of("bootstrap.servers", arguments[0]);
    Map<String, Object> answers = new TreeMap<>();
    try (SharedTopicAdmin topics = new SharedTopicAdmin(admin)) {
      KafkaStatusBackingStore store =
          new KafkaStatusBackingStore(Time.SYSTEM, json, topics, "probe");
      store.configure(new DistributedConfig(properties));
      store.start();
      answers.put("connectors", new TreeSet<>(store.connectors()));
      ConnectorStatus status = store.get(arguments[2]);
      if (status != null) {
        answers.put("state", status.state().name());
        answers.put("worker", status.workerId());
        answers.put("generation", status.generation());
        answers.put("trace", status.trace());
      }
      answers.put("tasks", store.getAll(arguments[2]).size());
      TreeSet<String> names = new TreeSet<>();
      store.getAllTopics(arguments[2]).stream().map(TopicStatus::topic).forEach(names::add);
      answers.put("topics", names);
      store.stop();
    }
    System.out.println(JsonMapper.builder().build().writeValueAsString(answers));
  }
}
