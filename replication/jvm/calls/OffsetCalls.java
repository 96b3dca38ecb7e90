package replication.calls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Offsets of many partitions at once. */
final class OffsetCalls {
  private final Admin admin;
  private final int timeoutMs;

  OffsetCalls(Admin admin, int timeoutMs) {
    this.admin = admin;
    this.timeoutMs = timeoutMs;
  }

  /**
   * The offset, timestamp and leader epoch of each of {@code [[topic, partition, time], ...]}, in
   * that order, or its error.
   *
   * <p>The client would wait for a partition that does not exist until the timeout, hence the look
   * before.
   */
  ArrayNode list(JsonNode partitions, boolean committed) {
    List<TopicPartition> asked = new ArrayList<>();
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    for (JsonNode it : partitions) {
      TopicPartition partition = new TopicPartition(it.get(0).asText(), it.get(1).asInt());
      asked.add(partition);
      specs.put(partition, spec(it.get(2).asLong()));
    }
    Map<TopicPartition, Throwable> failures = new HashMap<>();
    specs.keySet().retainAll(led(asked, failures));
    ListOffsetsResult found = null;
    if (!specs.isEmpty()) {
      var level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
      found = admin.listOffsets(specs, new ListOffsetsOptions(level).timeoutMs(timeoutMs));
    }
    ArrayNode results = JsonNodeFactory.instance.arrayNode();
    for (TopicPartition partition : asked) {
      ObjectNode one = JsonNodeFactory.instance.objectNode();
      if (found != null && specs.containsKey(partition)) {
        Settled.put(one, "", found.partitionResult(partition), OffsetCalls::place);
        if ("_TIMED_OUT".equals(one.get("").path("code").asText())) { // the cluster has answered
          ((ObjectNode) one.get("")).put("code", "_SILENT_LEADER");
        }
      } else {
        one.set("", ClientErrors.node(failures.get(partition)));
      }
      results.add(one.get(""));
    }
    return results;
  }

  /** As {@link AdminCalls#logEnds}. */
  String logEnds(String partitions, boolean committed) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    String[] lines = partitions.split("\n");
    for (String line : lines) {
      String[] fields = line.split("\t");
      for (int i = 1; i < fields.length; i++) {
        specs.put(new TopicPartition(fields[0], Integer.parseInt(fields[i])), OffsetSpec.latest());
      }
    }
    var level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    var found = admin.listOffsets(specs, new ListOffsetsOptions(level).timeoutMs(timeoutMs));
    StringBuilder ends = new StringBuilder();
    for (String line : lines) {
      String[] fields = line.split("\t");
      ends.append(fields[0]);
      for (int i = 1; i < fields.length; i++) {
        ends.append('\t');
        try {
          var end =
              found.partitionResult(new TopicPartition(fields[0], Integer.parseInt(fields[i])));
          ends.append(end.get().offset());
        } catch (ExecutionException e) {
          ends.append('!').append(ClientErrors.node(e).get("code").asText());
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
      }
      ends.append('\n');
    }
    return ends.toString();
  }

  private static JsonNode place(ListOffsetsResultInfo found) {
    return JsonNodeFactory.instance
        .arrayNode()
        .add(found.offset())
        .add(found.timestamp())
        .add(found.leaderEpoch().orElse(null));
  }

  private static OffsetSpec spec(long time) {
    if (time == -1) {
      return OffsetSpec.latest();
    }
    if (time == -3) {
      return OffsetSpec.maxTimestamp();
    }
    return time == -2 ? OffsetSpec.earliest() : OffsetSpec.forTimestamp(time);
  }

  /**
   * The partitions of {@code asked} that have a leader; the others are put into {@code failures}.
   */
  private Set<TopicPartition> led(
      List<TopicPartition> asked, Map<TopicPartition, Throwable> failures) {
    Set<String> names = new HashSet<>();
    asked.forEach(it -> names.add(it.topic()));
    Map<String, Throwable> unknown = new HashMap<>();
    Map<TopicPartition, TopicPartitionInfo> known = new HashMap<>();
    admin
        .describeTopics(names, new DescribeTopicsOptions().timeoutMs(timeoutMs))
        .topicNameValues()
        .forEach(
            (name, future) -> {
              try {
                for (TopicPartitionInfo it : future.get().partitions()) {
                  known.put(new TopicPartition(name, it.partition()), it);
                }
              } catch (Exception failure) {
                unknown.put(name, Settled.interrupted(failure));
              }
            });
    Set<TopicPartition> led = new HashSet<>();
    for (TopicPartition partition : asked) {
      TopicPartitionInfo info = known.get(partition);
      if (info != null && hasLeader(info)) {
        led.add(partition);
      } else if (info != null) {
        failures.put(partition, new LeaderNotAvailableException("the partition has no leader"));
      } else {
        Throwable failure = unknown.get(partition.topic());
        failures.put(
            partition,
            failure != null
                ? failure
                : new UnknownTopicOrPartitionException("the topic has no such partition"));
      }
    }
    return led;
  }

  /** Whether a broker leads {@code partition}. */
  static boolean hasLeader(TopicPartitionInfo partition) {
    return partition.leader() != null && !partition.leader().isEmpty();
  }
}
