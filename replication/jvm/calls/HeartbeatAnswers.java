package replication.calls;

import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;

/** Which heartbeats of a consumer its coordinator has answered, by when they were sent. */
final class HeartbeatAnswers {
  private final Metric total;
  private double counted;
  private long lookedAt = System.nanoTime();
  private long sentAt = lookedAt; // the heartbeat that will be answered next was sent then or later

  HeartbeatAnswers(KafkaConsumer<?, ?> consumer) {
    total = // looked up once: a consumer has hundreds
        consumer.metrics().values().stream()
            .filter(metric -> metric.metricName().name().equals("heartbeat-total"))
            .findAny()
            .orElseThrow();
  }

  /**
   * If a heartbeat was answered since the last call, a time at which it had not been sent yet.
   *
   * <p>Only one heartbeat is under way at a time, so this one was sent after the answer to the one
   * before it. Its own answer may have waited in a socket while the process was paused.
   */
  OptionalLong take() {
    double answered = ((Number) total.metricValue()).doubleValue();
    OptionalLong notYetSentAt = OptionalLong.empty();
    if (answered > counted) {
      counted = answered;
      notYetSentAt = OptionalLong.of(sentAt);
      sentAt = lookedAt;
    }
    lookedAt = System.nanoTime();
    return notYetSentAt;
  }
}
