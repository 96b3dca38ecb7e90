package replication;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Java's admin client with one round trip from Python for each call: arguments and results are JSON.
 *
 * <p>A result has an object for each key of the call: {@code {"ok": ...}}, or the error as {@link ClientErrors}
 * writes it. Every call returns within its timeout.
 */
public final class AdminCalls implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Cleaner CLEANER = Cleaner.create(); // for what Python drops without closing
  private final Admin admin;
  private final Cleaner.Cleanable closing;

  public AdminCalls(Map<String, String> properties) {
    Properties own = new Properties();
    own.putAll(properties);
    Admin created = Admin.create(own);
    admin = created;
    // Nothing is under way that somebody waits for. Closing twice does nothing.
    closing = CLEANER.register(this, () -> created.close(Duration.ofSeconds(1)));
  }

  @Override
  public void close() {
    closing.clean();
  }

  /** Of the cluster: {@code {"": {"ok": {"id": "...", "brokers": [1, ...], "topics": [...]}}}}. */
  public String cluster(int timeoutMs) {
    ObjectNode results = JSON.createObjectNode();
    var described = admin.describeCluster(new DescribeClusterOptions().timeoutMs(timeoutMs));
    var id = described.clusterId().toCompletionStage().toCompletableFuture();
    var nodes = described.nodes().toCompletionStage().toCompletableFuture();
    var names = admin.listTopics(new ListTopicsOptions().timeoutMs(timeoutMs).listInternal(true)).names();
    settle(
        results,
        "",
        names,
        found -> {
          ObjectNode node = JSON.createObjectNode().put("id", id.join());
          ArrayNode brokers = node.putArray("brokers");
          nodes.join().forEach(broker -> brokers.add(broker.id()));
          found.forEach(node.putArray("topics")::add);
          return node;
        });
    return results.toString();
  }

  /** Topics by name: {@code {"id": uuid, "partitions": [[0, true], ...]}}, true if it has a leader. */
  public String describeTopics(String names, int timeoutMs) throws JsonProcessingException {
    ObjectNode results = JSON.createObjectNode();
    described(list(names), timeoutMs)
        .forEach(
            (name, future) ->
                settle(
                    results,
                    name,
                    future,
                    topic -> {
                      ObjectNode node = JSON.createObjectNode().put("id", topic.topicId().toString());
                      ArrayNode partitions = node.putArray("partitions");
                      topic.partitions().forEach(it -> partitions.addArray().add(it.partition()).add(hasLeader(it)));
                      return node;
                    }));
    return results.toString();
  }

  /** What this user may do with topics: {@code ["READ", "DESCRIBE"]}, null if the broker does not say it. */
  public String authorizedOperations(String names, int timeoutMs) throws JsonProcessingException {
    ObjectNode results = JSON.createObjectNode();
    var options = new DescribeTopicsOptions().timeoutMs(timeoutMs).includeAuthorizedOperations(true);
    admin
        .describeTopics(list(names), options)
        .topicNameValues()
        .forEach((name, future) -> settle(results, name, future, it -> JSON.valueToTree(it.authorizedOperations())));
    return results.toString();
  }

  private Map<String, KafkaFuture<TopicDescription>> described(Collection<String> names, int timeoutMs) {
    return admin.describeTopics(names, new DescribeTopicsOptions().timeoutMs(timeoutMs)).topicNameValues();
  }

  private static boolean hasLeader(TopicPartitionInfo partition) {
    return partition.leader() != null && !partition.leader().isEmpty();
  }

  /**
   * Offsets of partitions, {@code [[topic, partition, time], ...]}, in that order; a time of -1 is the log
   * end, one of -2 its start.
   *
   * <p>The client would wait for a partition that does not exist until the timeout, hence the look before.
   */
  public String listOffsets(String partitions, boolean committed, int timeoutMs) throws JsonProcessingException {
    List<TopicPartition> asked = new ArrayList<>();
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    for (JsonNode it : JSON.readTree(partitions)) {
      TopicPartition partition = new TopicPartition(it.get(0).asText(), it.get(1).asInt());
      asked.add(partition);
      specs.put(partition, spec(it.get(2).asLong()));
    }
    Map<TopicPartition, Throwable> failures = new HashMap<>();
    specs.keySet().retainAll(led(asked, timeoutMs, failures));
    ListOffsetsResult found = null;
    if (!specs.isEmpty()) {
      var level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
      found = admin.listOffsets(specs, new ListOffsetsOptions(level).timeoutMs(timeoutMs));
    }
    ArrayNode results = JSON.createArrayNode();
    for (TopicPartition partition : asked) {
      ObjectNode one = JSON.createObjectNode();
      if (found != null && specs.containsKey(partition)) {
        settle(one, "", found.partitionResult(partition), it -> JSON.getNodeFactory().numberNode(it.offset()));
      } else {
        one.set("", ClientErrors.node(failures.get(partition)));
      }
      results.add(one.get(""));
    }
    return results.toString();
  }

  private static OffsetSpec spec(long time) {
    if (time == -1) {
      return OffsetSpec.latest();
    }
    return time == -2 ? OffsetSpec.earliest() : OffsetSpec.forTimestamp(time);
  }

  /** The partitions of {@code asked} that have a leader; the others are put into {@code failures}. */
  private Set<TopicPartition> led(
      List<TopicPartition> asked, int timeoutMs, Map<TopicPartition, Throwable> failures) {
    Set<String> names = new HashSet<>();
    asked.forEach(it -> names.add(it.topic()));
    Map<String, Object> topics = new HashMap<>();
    described(names, timeoutMs)
        .forEach(
            (name, future) -> {
              try {
                topics.put(name, future.get());
              } catch (Exception failure) {
                topics.put(name, interrupted(failure));
              }
            });
    Set<TopicPartition> led = new HashSet<>();
    for (TopicPartition partition : asked) {
      if (topics.get(partition.topic()) instanceof TopicDescription topic) {
        Optional<TopicPartitionInfo> info =
            topic.partitions().stream().filter(it -> it.partition() == partition.partition()).findAny();
        if (info.isPresent() && hasLeader(info.get())) {
          led.add(partition);
        } else {
          failures.put(
              partition,
              info.isPresent()
                  ? new LeaderNotAvailableException("the partition has no leader")
                  : new UnknownTopicOrPartitionException("the topic has no such partition"));
        }
      } else {
        failures.put(partition, (Throwable) topics.get(partition.topic()));
      }
    }
    return led;
  }

  /** Creates topics: {@code {name: {"partitions": n, "factor": n, "configs": {...}}}}. */
  public String createTopics(String topics, int timeoutMs) throws JsonProcessingException {
    List<NewTopic> created = new ArrayList<>();
    for (var it : JSON.readTree(topics).properties()) {
      JsonNode topic = it.getValue();
      short factor = (short) topic.get("factor").asInt();
      Map<String, String> configs = JSON.convertValue(topic.get("configs"), new TypeReference<>() {});
      created.add(new NewTopic(it.getKey(), topic.get("partitions").asInt(), factor).configs(configs));
    }
    ObjectNode results = JSON.createObjectNode();
    admin
        .createTopics(created, new CreateTopicsOptions().timeoutMs(timeoutMs))
        .values()
        .forEach((name, future) -> settle(results, name, future, nothing -> null));
    return results.toString();
  }

  /** Deletes topics. */
  public String deleteTopics(String names, int timeoutMs) throws JsonProcessingException {
    ObjectNode results = JSON.createObjectNode();
    admin
        .deleteTopics(list(names), new DeleteTopicsOptions().timeoutMs(timeoutMs))
        .topicNameValues()
        .forEach((name, future) -> settle(results, name, future, nothing -> null));
    return results.toString();
  }

  /** Grows topics to {@code {name: count}}. */
  public String createPartitions(String counts, int timeoutMs) throws JsonProcessingException {
    Map<String, NewPartitions> wanted = new HashMap<>();
    JSON.readTree(counts).properties()
        .forEach(it -> wanted.put(it.getKey(), NewPartitions.increaseTo(it.getValue().asInt())));
    ObjectNode results = JSON.createObjectNode();
    admin
        .createPartitions(wanted, new CreatePartitionsOptions().timeoutMs(timeoutMs))
        .values()
        .forEach((name, future) -> settle(results, name, future, nothing -> null));
    return results.toString();
  }

  /** Settings of topics: {@code {name: {key: [value, source, isReadOnly, isSensitive]}}}. */
  public String describeConfigs(String topics, int timeoutMs) throws JsonProcessingException {
    return describe(ConfigResource.Type.TOPIC, topics, timeoutMs);
  }

  /** Settings of brokers, by their ids, in the same form. */
  public String describeBrokers(String ids, int timeoutMs) throws JsonProcessingException {
    return describe(ConfigResource.Type.BROKER, ids, timeoutMs);
  }

  private String describe(ConfigResource.Type type, String names, int timeoutMs) throws JsonProcessingException {
    List<ConfigResource> resources = list(names).stream().map(name -> new ConfigResource(type, name)).toList();
    ObjectNode results = JSON.createObjectNode();
    admin
        .describeConfigs(resources, new DescribeConfigsOptions().timeoutMs(timeoutMs))
        .values()
        .forEach((resource, future) -> settle(results, resource.name(), future, AdminCalls::settings));
    return results.toString();
  }

  private static JsonNode settings(Config config) {
    ObjectNode node = JSON.createObjectNode();
    for (ConfigEntry it : config.entries()) {
      node.putArray(it.name()).add(it.value()).add(it.source().name()).add(it.isReadOnly()).add(it.isSensitive());
    }
    return node;
  }

  /** Changes settings of topics, {@code {name: {key: value}}}; null removes one. */
  public String alterConfigs(String changes, int timeoutMs) throws JsonProcessingException {
    Map<ConfigResource, Collection<AlterConfigOp>> wanted = new LinkedHashMap<>();
    for (var topic : JSON.readTree(changes).properties()) {
      List<AlterConfigOp> operations = new ArrayList<>();
      for (var it : topic.getValue().properties()) {
        String value = it.getValue().isNull() ? null : it.getValue().asText();
        var type = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        operations.add(new AlterConfigOp(new ConfigEntry(it.getKey(), value), type));
      }
      wanted.put(topic(topic.getKey()), operations);
    }
    ObjectNode results = JSON.createObjectNode();
    admin
        .incrementalAlterConfigs(wanted, new AlterConfigsOptions().timeoutMs(timeoutMs))
        .values()
        .forEach((topic, future) -> settle(results, topic.name(), future, nothing -> null));
    return results.toString();
  }

  private static ConfigResource topic(String name) {
    return new ConfigResource(ConfigResource.Type.TOPIC, name);
  }

  private static List<String> list(String json) throws JsonProcessingException {
    return JSON.readValue(json, new TypeReference<>() {});
  }

  private static <T> void settle(
      ObjectNode results, String key, KafkaFuture<T> future, Function<T, JsonNode> write) {
    try {
      JsonNode written = write.apply(future.get());
      results.putObject(key).set("ok", written);
    } catch (Exception failure) {
      results.set(key, ClientErrors.node(interrupted(failure)));
    }
  }

  private static Exception interrupted(Exception failure) {
    if (failure instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
    return failure;
  }
}
