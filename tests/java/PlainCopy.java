import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic with Kafka's Java clients and does nothing else: the least that a copy through
 * these clients takes. It keeps no positions, so it is no mirror.
 *
 * <p>Arguments: the bootstrap.servers of both clusters, both topics, the number of threads, and
 * settings {@code consumer.KEY=VALUE} and {@code producer.KEY=VALUE}. Each thread has a consumer of
 * its share of the partitions; all share one producer. It ends when it is killed.
 */
final class PlainCopy {
  private final String topic;
  private final Producer<byte[], byte[]> producer;

  private PlainCopy(String topic, Producer<byte[], byte[]> producer) {
    this.topic = topic;
    this.producer = producer;
  }

  public static void main(String[] arguments) throws Exception {
    String sourceTopic = arguments[2];
    String topic = arguments[3];
    int threads = Integer.parseInt(arguments[4]);
    Properties source = settings("consumer.", arguments);
    source.put("bootstrap.servers", arguments[0]);
    source.putIfAbsent("auto.offset.reset", "earliest");
    Properties target = settings("producer.", arguments);
    target.put("bootstrap.servers", arguments[1]);

    int partitions = partitions(arguments[0], sourceTopic);
    create(arguments[1], topic, partitions);
    ByteArraySerializer octets = new ByteArraySerializer();
    PlainCopy copy = new PlainCopy(topic, new KafkaProducer<>(target, octets, octets));
    for (int thread = 0; thread < threads; thread++) {
      int first = thread;
      List<TopicPartition> share =
          IntStream.range(0, partitions)
              .filter(number -> number % threads == first)
              .mapToObj(number -> new TopicPartition(sourceTopic, number))
              .toList();
      new Thread(() -> copy.run(source, share), "copy-" + thread).start();
    }
  }

  private void run(Properties settings, List<TopicPartition> share) {
    ByteArrayDeserializer octets = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, octets, octets)) {
      consumer.assign(share);
      while (true) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMinutes(1))) {
          producer.send(copyOf(record), (metadata, error) -> endIfFailed(error));
        }
      }
    }
  }

  private ProducerRecord<byte[], byte[]> copyOf(ConsumerRecord<byte[], byte[]> record) {
    return new ProducerRecord<>(
        topic,
        record.partition(),
        record.timestamp(),
        record.key(),
        record.value(),
        record.headers());
  }

  private static void endIfFailed(Exception error) {
    if (error != null) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private static int partitions(String bootstrap, String topic) throws Exception {
    try (Admin admin = admin(bootstrap)) {
      return admin
          .describeTopics(List.of(topic))
          .allTopicNames()
          .get()
          .get(topic)
          .partitions()
          .size();
    }
  }

  private static void create(String bootstrap, String topic, int partitions)
      throws InterruptedException, ExecutionException {
    try (Admin admin = admin(bootstrap)) {
      admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
    }
  }

  private static Admin admin(String bootstrap) {
    return Admin.create(Map.of("bootstrap.servers", bootstrap));
  }

  private static Properties settings(String prefix, String[] arguments) {
    Properties settings = new Properties();
    for (String argument : arguments) {
      if (argument.startsWith(prefix)) {
        String[] pair = argument.substring(prefix.length()).split("=", 2);
        settings.put(pair[0], pair[1]);
      }
    }
    return settings;
  }
}
