package replication.calls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The codecs of the newest batches of topics. Kafka's consumer decompresses and does not tell, so
 * this asks the leaders itself, through the client's own connections: any security works.
 */
public final class NewestCodecs {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Of a topic: those with the most records. */
  private static final int PARTITIONS = 3;

  private static final int AT_ONCE = 50;

  /** How far to look back behind markers of transactions, which have no codec. */
  private static final int STEPS = 4;

  private NewestCodecs() {}

  private static final class Tail {
    private final TopicPartition partition;
    private final long first;
    private long at;
    private long step = 10;
    private int steps;
    private String codec;
    private long time;

    private Tail(TopicPartition partition, long first, long end) {
      this.partition = partition;
      this.first = first;
      at = end - 1;
    }

    /** Takes the newest batch that has records; false to look further back. */
    private boolean take(Iterable<? extends RecordBatch> batches) {
      for (RecordBatch batch : batches) {
        if (!batch.isControlBatch()) {
          codec = batch.compressionType().name;
          time = batch.maxTimestamp();
        }
      }
      if (codec != null || at == first || ++steps == STEPS) {
        return true;
      }
      at = Math.max(first, at - step);
      step *= step;
      return false;
    }
  }

  /**
   * The codecs of {@code topics}, a list of names: {@code {"orders": ["zstd", "none"]}}, those of
   * the newest batches first. A topic without a batch that says it is absent.
   */
  public static String of(Map<String, String> properties, String topics, int timeoutMs)
      throws IOException {
    long deadline = System.nanoTime() + 1_000_000L * timeoutMs;
    Map<String, Object> settings = new HashMap<>(properties);
    var bytes = new ByteArrayDeserializer();
    Map<Node, List<Tail>> byLeader = new LinkedHashMap<>();
    List<Tail> tails = new ArrayList<>();
    try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
      Map<TopicPartition, Node> leaders = leaders(consumer, JSON.readTree(topics), deadline);
      for (Tail tail : tails(consumer, leaders, deadline)) {
        tails.add(tail);
        byLeader
            .computeIfAbsent(leaders.get(tail.partition), leader -> new ArrayList<>())
            .add(tail);
      }
    }
    try (var client = new RawFetch(settings)) {
      for (Map.Entry<Node, List<Tail>> entry : byLeader.entrySet()) {
        look(client, entry.getKey(), entry.getValue(), deadline);
      }
    }
    return text(tails);
  }

  private static Map<TopicPartition, Node> leaders(
      KafkaConsumer<?, ?> consumer, JsonNode topics, long deadline) {
    Map<String, List<PartitionInfo>> known = consumer.listTopics(left(deadline));
    Map<TopicPartition, Node> leaders = new LinkedHashMap<>();
    for (JsonNode topic : topics) {
      for (PartitionInfo info : known.getOrDefault(topic.asText(), List.of())) {
        if (info.leader() != null) {
          leaders.put(new TopicPartition(info.topic(), info.partition()), info.leader());
        }
      }
    }
    return leaders;
  }

  private static List<Tail> tails(
      KafkaConsumer<?, ?> consumer, Map<TopicPartition, Node> leaders, long deadline) {
    var ends = consumer.endOffsets(leaders.keySet(), left(deadline));
    var firsts = consumer.beginningOffsets(leaders.keySet(), left(deadline));
    Map<String, List<Tail>> byTopic = new LinkedHashMap<>();
    ends.forEach(
        (tp, end) -> {
          if (end > firsts.get(tp)) {
            byTopic
                .computeIfAbsent(tp.topic(), topic -> new ArrayList<>())
                .add(new Tail(tp, firsts.get(tp), end));
          }
        });
    List<Tail> chosen = new ArrayList<>();
    for (List<Tail> ofTopic : byTopic.values()) {
      ofTopic.sort(Comparator.comparingLong((Tail tail) -> tail.first - tail.at));
      chosen.addAll(ofTopic.subList(0, Math.min(PARTITIONS, ofTopic.size())));
    }
    return chosen;
  }

  private static void look(RawFetch client, Node leader, List<Tail> tails, long deadline)
      throws IOException {
    client.connect(leader, left(deadline));
    List<Tail> open = new ArrayList<>(tails);
    while (!open.isEmpty()) {
      left(deadline);
      List<Tail> asked = new ArrayList<>(open.subList(0, Math.min(AT_ONCE, open.size())));
      open.subList(0, asked.size()).clear();
      Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
      asked.forEach(tail -> offsets.put(tail.partition, tail.at));
      Map<TopicPartition, FetchResponseData.PartitionData> answers = client.fetch(leader, offsets);
      for (Tail tail : asked) {
        FetchResponseData.PartitionData answer = answers.get(tail.partition);
        boolean isFirst = tail == asked.get(0);
        if (answer == null || answer.errorCode() != Errors.NONE.code()) {
          continue; // led by another one by now, or deleted: the next look tells
        }
        boolean isEmpty = FetchResponse.recordsSize(answer) == 0;
        if (isEmpty && !isFirst) {
          open.add(tail); // the answer was full
        } else if (!tail.take(FetchResponse.recordsOrFail(answer).batches())) {
          open.add(tail);
        }
      }
    }
  }

  private static Duration left(long deadline) {
    long nanos = deadline - System.nanoTime();
    if (nanos <= 0) {
      throw new TimeoutException("no answer in time what the newest batches are");
    }
    return Duration.ofNanos(nanos);
  }

  private static String text(List<Tail> tails) {
    tails.removeIf(tail -> tail.codec == null);
    tails.sort(Comparator.comparingLong((Tail tail) -> tail.time).reversed());
    Map<String, Set<String>> codecs = new LinkedHashMap<>();
    for (Tail tail : tails) {
      codecs
          .computeIfAbsent(tail.partition.topic(), topic -> new LinkedHashSet<>())
          .add(tail.codec);
    }
    return JSON.valueToTree(codecs).toString();
  }
}
