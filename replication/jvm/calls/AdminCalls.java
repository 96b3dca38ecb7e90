package replication.calls;

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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Java's admin client with one round trip from Python for each call: arguments and results are
 * JSON.
 *
 * <p>A result has an object for each key of the call: {@code {"ok": ...}}, or the error as {@link
 * ClientErrors} writes it. Every call returns within its timeout.
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

  /**
   * Of the cluster: {@code {"": {"ok": {"id": "...", "brokers": [[1, host, port], ...], "topics":
   * [...]}}}}.
   */
  public String cluster(int timeoutMs) {
    ObjectNode results = JSON.createObjectNode();
    var described = admin.describeCluster(new DescribeClusterOptions().timeoutMs(timeoutMs));
    var names =
        admin.listTopics(new ListTopicsOptions().timeoutMs(timeoutMs).listInternal(true)).names();
    Settled.put(
        results,
        "",
        names,
        found -> {
          ObjectNode node = cluster(described);
          found.forEach(node.putArray("topics")::add);
          return node;
        });
    return results.toString();
  }

  /** As {@code cluster} without the topics: the smallest question, which any broker answers. */
  public String brokers(int timeoutMs) {
    ObjectNode results = JSON.createObjectNode();
    var described = admin.describeCluster(new DescribeClusterOptions().timeoutMs(timeoutMs));
    Settled.put(results, "", described.nodes(), nodes -> cluster(described));
    return results.toString();
  }

  private static ObjectNode cluster(DescribeClusterResult described) {
    var id = described.clusterId().toCompletionStage().toCompletableFuture();
    var nodes = described.nodes().toCompletionStage().toCompletableFuture();
    ObjectNode node = JSON.createObjectNode().put("id", id.join());
    ArrayNode brokers = node.putArray("brokers");
    nodes.join().forEach(at -> brokers.addArray().add(at.id()).add(at.host()).add(at.port()));
    return node;
  }

  /**
   * Topics by name: {@code {"name": name, "id": uuid, "leaders": [1, ...], "inSync": [[2, 3],
   * ...]}}: the broker that leads each partition, or null, and how many of how many replicas have
   * all of it.
   */
  public String describeTopics(String names, int timeoutMs) throws JsonProcessingException {
    var options = new DescribeTopicsOptions().timeoutMs(timeoutMs);
    var found = admin.describeTopics(list(names), options).topicNameValues();
    return Settled.all(found, name -> name, AdminCalls::topic);
  }

  private static JsonNode topic(TopicDescription topic) {
    ObjectNode node = JSON.createObjectNode().put("name", topic.name());
    ArrayNode leaders = node.put("id", topic.topicId().toString()).putArray("leaders");
    ArrayNode inSync = node.putArray("inSync");
    for (TopicPartitionInfo partition : topic.partitions()) {
      leaders.add(OffsetCalls.hasLeader(partition) ? partition.leader().id() : null);
      inSync.addArray().add(partition.isr().size()).add(partition.replicas().size());
    }
    return node;
  }

  /**
   * What this user may do with topics: {@code ["READ", "DESCRIBE"]}, null if the broker does not
   * say it.
   */
  public String authorizedOperations(String names, int timeoutMs) throws JsonProcessingException {
    var options =
        new DescribeTopicsOptions().timeoutMs(timeoutMs).includeAuthorizedOperations(true);
    var found = admin.describeTopics(list(names), options).topicNameValues();
    return Settled.all(found, name -> name, it -> JSON.valueToTree(it.authorizedOperations()));
  }

  /** Members of consumer groups: {@code [id, ...]}, the static id where a member has one. */
  public String members(String groups, int timeoutMs) throws JsonProcessingException {
    var options = new DescribeConsumerGroupsOptions().timeoutMs(timeoutMs);
    var found = admin.describeConsumerGroups(list(groups), options).describedGroups();
    return Settled.all(found, group -> group, AdminCalls::members);
  }

  private static JsonNode members(ConsumerGroupDescription group) {
    ArrayNode ids = JSON.createArrayNode();
    group.members().forEach(it -> ids.add(it.groupInstanceId().orElse(it.consumerId())));
    return ids;
  }

  /**
   * Offsets, timestamps and leader epochs of partitions, {@code [[topic, partition, time], ...]},
   * in that order; a time of -1 is the log end, one of -2 its start, one of -3 the record with the
   * newest timestamp.
   */
  public String listOffsets(String partitions, boolean committed, int timeoutMs)
      throws JsonProcessingException {
    return new OffsetCalls(admin, timeoutMs).list(JSON.readTree(partitions), committed).toString();
  }

  /**
   * Log ends, for looks that come every few seconds: no topic is described, and nothing is tried
   * again.
   *
   * @param partitions lines of {@code topic number number ...}, separated by tabs
   * @return the offsets in the same places, or {@code !} and Kafka's name of the error
   */
  public String logEnds(String partitions, boolean committed, int timeoutMs) {
    return new OffsetCalls(admin, timeoutMs).logEnds(partitions, committed);
  }

  /**
   * Creates topics: {@code {name: [partitions, factor, {...}]}}; or only says what it would reject.
   */
  public String createTopics(String topics, boolean validateOnly, int timeoutMs)
      throws JsonProcessingException {
    List<NewTopic> created = new ArrayList<>();
    for (var it : JSON.readTree(topics).properties()) {
      JsonNode topic = it.getValue();
      short factor = (short) topic.get(1).asInt();
      Map<String, String> configs = JSON.convertValue(topic.get(2), new TypeReference<>() {});
      created.add(new NewTopic(it.getKey(), topic.get(0).asInt(), factor).configs(configs));
    }
    var options = new CreateTopicsOptions().timeoutMs(timeoutMs).validateOnly(validateOnly);
    return Settled.all(admin.createTopics(created, options).values(), name -> name, done -> null);
  }

  /** Deletes topics. */
  public String deleteTopics(String names, int timeoutMs) throws JsonProcessingException {
    var options = new DeleteTopicsOptions().timeoutMs(timeoutMs);
    var deleted = admin.deleteTopics(list(names), options).topicNameValues();
    return Settled.all(deleted, name -> name, done -> null);
  }

  /** Grows topics to {@code {name: count}}. */
  public String createPartitions(String counts, int timeoutMs) throws JsonProcessingException {
    Map<String, NewPartitions> wanted = new HashMap<>();
    JSON.readTree(counts)
        .properties()
        .forEach(it -> wanted.put(it.getKey(), NewPartitions.increaseTo(it.getValue().asInt())));
    var options = new CreatePartitionsOptions().timeoutMs(timeoutMs);
    var grown = admin.createPartitions(wanted, options).values();
    return Settled.all(grown, name -> name, done -> null);
  }

  /**
   * Settings of topics, or of brokers by their ids: {@code {name: {key: [value, source, isReadOnly,
   * isSensitive]}}}.
   *
   * @param kind {@code TOPIC} or {@code BROKER}
   */
  public String describeConfigs(String names, String kind, int timeoutMs)
      throws JsonProcessingException {
    var type = ConfigResource.Type.valueOf(kind);
    List<ConfigResource> resources =
        list(names).stream().map(name -> new ConfigResource(type, name)).toList();
    var options = new DescribeConfigsOptions().timeoutMs(timeoutMs);
    var found = admin.describeConfigs(resources, options).values();
    return Settled.all(found, ConfigResource::name, AdminCalls::settings);
  }

  private static JsonNode settings(Config config) {
    ObjectNode node = JSON.createObjectNode();
    for (ConfigEntry it : config.entries()) {
      node.putArray(it.name())
          .add(it.value())
          .add(it.source().name())
          .add(it.isReadOnly())
          .add(it.isSensitive());
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
    var options = new AlterConfigsOptions().timeoutMs(timeoutMs);
    var altered = admin.incrementalAlterConfigs(wanted, options).values();
    return Settled.all(altered, ConfigResource::name, done -> null);
  }

  private static ConfigResource topic(String name) {
    return new ConfigResource(ConfigResource.Type.TOPIC, name);
  }

  private static List<String> list(String json) throws JsonProcessingException {
    return JSON.readValue(json, new TypeReference<>() {});
  }
}
