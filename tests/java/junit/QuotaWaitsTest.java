package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Which clients wait for a quota, by the beans that clients of Kafka register. */
final class QuotaWaitsTest {
  private final List<Metrics> opened = new ArrayList<>();
  private final Metrics consumers = metricsOf("kafka.consumer");
  private final Metrics producers = metricsOf("kafka.producer");
  private final QuotaWaits waits = new QuotaWaits();

  private Metrics metricsOf(String kind) {
    JmxReporter reporter = new JmxReporter();
    reporter.contextChange(new KafkaMetricsContext(kind));
    opened.add(new Metrics(new MetricConfig(), List.of(reporter), Time.SYSTEM));
    return opened.get(opened.size() - 1);
  }

  /** A consumer whose requests wait for {@code millis}. */
  private MetricName consumer(String id, double millis) {
    return add(consumers, "fetch-throttle-time-avg", "consumer-fetch-manager-metrics", id, millis);
  }

  private MetricName producer(String id, double millis) {
    return add(producers, "produce-throttle-time-avg", "producer-metrics", id, millis);
  }

  private static MetricName add(
      Metrics to, String attribute, String group, String id, double millis) {
    MetricName name = to.metricName(attribute, group, Map.of("client-id", id));
    to.addMetric(name, (Gauge<Double>) (config, now) -> millis);
    return name;
  }

  @AfterEach
  void close() {
    opened.forEach(Metrics::close);
  }

  @Test
  void consumersAndProducersThatWaitAreNamedAndNoOthers() {
    consumer("reads: A->B", 250);
    consumer("does not wait", 0);
    consumer("without a request", Double.NaN);
    producer("writes", 40);

    assertEquals(Map.of("reads: A->B", 250.0, "writes", 40.0), waits.look());
  }

  @Test
  void eachLookSaysWhatIsSoNow() {
    double[] millis = {0};
    MetricName name =
        consumers.metricName(
            "fetch-throttle-time-avg", "consumer-fetch-manager-metrics", Map.of("client-id", "a"));
    consumers.addMetric(name, (Gauge<Double>) (config, now) -> millis[0]);
    assertEquals(Map.of(), waits.look());
    millis[0] = 30;
    assertEquals(Map.of("a", 30.0), waits.look());

    consumers.removeMetric(name);
    assertEquals(Map.of(), waits.look());
  }

  @Test
  void aClientIsFoundAlsoIfAsManyBeansWentAsCame() {
    consumer("old", 10);
    MetricName partition =
        consumers.metricName("lag", "of a partition", Map.of("client-id", "old", "partition", "0"));
    consumers.addMetric(partition, (Gauge<Double>) (config, now) -> 0.0);
    assertEquals(Map.of("old", 10.0), waits.look());

    consumers.removeMetric(partition);
    consumer("new", 20);

    assertEquals(Map.of("old", 10.0, "new", 20.0), waits.look());
  }
}
