package replication.source;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Kafka's client, whose polls are given up where they become too large. */
final class BoundedClient extends KafkaConsumer<byte[], byte[]> {
  private final PollBudget budget;

  BoundedClient(Map<String, Object> properties, PollBudget budget) {
    super(properties, budget, budget);
    this.budget = budget;
  }

  /**
   * As the client's own.
   *
   * @throws PollBudget.Exceeded if it is given up: the client is of no use then
   */
  @Override
  public ConsumerRecords<byte[], byte[]> poll(Duration patience) {
    budget.begin();
    return super.poll(patience);
  }
}
