package replication.source;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Kafka's client, whose polls are given up where they become too large, or another cluster's. */
final class BoundedClient extends KafkaConsumer<byte[], byte[]> {
  private final PollBudget budget;

  BoundedClient(Map<String, Object> properties, PollBudget budget) {
    super(properties, budget, budget);
    this.budget = budget;
  }

  /**
   * As the client's own.
   *
   * @throws PollBudget.Exceeded if it is too large: the client is of no use then
   * @throws OtherCluster if it would be of another cluster
   */
  @Override
  public ConsumerRecords<byte[], byte[]> poll(Duration patience) {
    return checked(
        () -> {
          budget.begin();
          return super.poll(patience);
        });
  }

  /**
   * As the client's own.
   *
   * @throws OtherCluster if they would be of another cluster
   */
  @Override
  public Map<TopicPartition, Long> endOffsets(
      Collection<TopicPartition> partitions, Duration patience) {
    return checked(() -> super.endOffsets(partitions, patience));
  }

  private <T> T checked(Supplier<T> ask) {
    try {
      T answer = ask.get();
      budget.check();
      return answer;
    } catch (PollBudget.Elsewhere e) {
      throw new OtherCluster(e.getMessage());
    }
  }
}
