package replication.calls;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.DefaultHostResolver;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.NetworkClientUtils;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * Fetches batches as they are in the log, of which Kafka's consumer gives the records only. It
 * connects as the consumer does, so that any security works.
 */
final class RawFetch implements AutoCloseable {
  private static final int BATCH_BYTES = 1_048_576; // the first batch of an answer may be larger
  private static final int ANSWER_BYTES = 33_554_432;
  private static final short BY_NAME = 12; // the last version of a fetch that names topics

  private final Metrics metrics = new Metrics();
  private final NetworkClient client;

  RawFetch(Map<String, ?> consumerProperties) {
    Map<String, Object> settings = new HashMap<>(consumerProperties);
    settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    ConsumerConfig config = new ConsumerConfig(settings);
    client =
        ClientUtils.createNetworkClient(
            config,
            config.getString(ConsumerConfig.CLIENT_ID_CONFIG),
            metrics,
            "replication",
            new LogContext(),
            new ApiVersions(),
            Time.SYSTEM,
            1,
            config.getInt(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG),
            new ManualMetadataUpdater(),
            new DefaultHostResolver());
  }

  void connect(Node leader, Duration timeout) throws IOException {
    if (!NetworkClientUtils.awaitReady(client, leader, Time.SYSTEM, timeout.toMillis())) {
      throw new TimeoutException("no connection to " + leader);
    }
  }

  /** What {@code leader} has from these offsets on: of the first partition a batch at least. */
  Map<TopicPartition, FetchResponseData.PartitionData> fetch(
      Node leader, Map<TopicPartition, Long> offsets) throws IOException {
    Map<TopicPartition, FetchRequest.PartitionData> wanted = new LinkedHashMap<>();
    offsets.forEach(
        (partition, offset) ->
            wanted.put(
                partition,
                new FetchRequest.PartitionData(
                    Uuid.ZERO_UUID,
                    offset,
                    FetchRequest.INVALID_LOG_START_OFFSET,
                    BATCH_BYTES,
                    Optional.empty())));
    var builder = FetchRequest.Builder.forConsumer(BY_NAME, 0, 0, wanted).setMaxBytes(ANSWER_BYTES);
    var request =
        client.newClientRequest(leader.idString(), builder, Time.SYSTEM.milliseconds(), true);
    var response = NetworkClientUtils.sendAndReceive(client, request, Time.SYSTEM);
    var body = (FetchResponse) response.responseBody();
    return body.responseData(Map.of(), response.requestHeader().apiVersion());
  }

  @Override
  public void close() {
    client.close();
    metrics.close();
  }
}
