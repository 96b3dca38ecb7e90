package replication.calls;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

/** Who holds partitions open by a transaction, with one round trip from Python. */
public final class TransactionCalls {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Admin admin;

  public TransactionCalls(Admin admin) {
    this.admin = admin;
  }

  /**
   * The first open transaction of each of {@code [["topic", 0], ...]}, in that order: {@code
   * {"producer": 4001, "last": ms, "id": "payments", "since": ms}}; {@code {}} if none is open.
   *
   * <p>The name and its start are missing where the user may not see them. A partition whose
   * producers cannot be described has the error instead, as {@link ClientErrors} writes it.
   */
  public String open(String partitions) throws JsonProcessingException, InterruptedException {
    List<TopicPartition> asked = new ArrayList<>();
    for (JsonNode one : JSON.readTree(partitions)) {
      asked.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt()));
    }
    var described = admin.describeProducers(asked);
    Map<TopicPartition, ObjectNode> found = new HashMap<>();
    Set<Long> producers = new HashSet<>();
    for (TopicPartition partition : asked) {
      try {
        ObjectNode first = first(described.partitionResult(partition).get());
        found.put(partition, first);
        if (first.has("producer")) {
          producers.add(first.get("producer").asLong());
        }
      } catch (ExecutionException failure) {
        found.put(partition, ClientErrors.node(failure));
      }
    }
    Map<Long, ObjectNode> named = producers.isEmpty() ? Map.of() : named(producers);
    ArrayNode answers = JSON.createArrayNode();
    for (TopicPartition partition : asked) {
      ObjectNode one = found.get(partition);
      if (one.has("producer") && named.containsKey(one.get("producer").asLong())) {
        one.setAll(named.get(one.get("producer").asLong()));
      }
      answers.add(one);
    }
    return answers.toString();
  }

  private static ObjectNode first(PartitionProducerState partition) {
    ObjectNode node = JSON.createObjectNode();
    partition.activeProducers().stream()
        .filter(producer -> producer.currentTransactionStartOffset().isPresent())
        .min(
            Comparator.comparingLong(
                producer -> producer.currentTransactionStartOffset().getAsLong()))
        .ifPresent(producer -> put(node, producer));
    return node;
  }

  private static void put(ObjectNode node, ProducerState producer) {
    node.put("producer", producer.producerId()).put("last", producer.lastTimestamp());
  }

  /** Name and start of the transactions of {@code producers} that this user may see. */
  private Map<Long, ObjectNode> named(Set<Long> producers) throws InterruptedException {
    Map<Long, ObjectNode> found = new HashMap<>();
    try {
      var options = new ListTransactionsOptions().filterProducerIds(producers);
      for (var listed : admin.listTransactions(options).all().get()) {
        ObjectNode node = JSON.createObjectNode().put("id", listed.transactionalId());
        found.put(listed.producerId(), node);
        TransactionDescription one =
            admin
                .describeTransactions(List.of(listed.transactionalId()))
                .description(listed.transactionalId())
                .get();
        one.transactionStartTimeMs().ifPresent(ms -> node.put("since", ms));
      }
    } catch (ExecutionException failure) {
      // A coordinator is away, or the user may not see it: the producer's id has to do.
    }
    return found;
  }
}
