package replication.tests;

import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.connect.mirror.ReplicationPolicy;

/**
 * Names remote topics as nobody else does: orders of A is orders-from-A, by a setting of its own.
 */
public final class OwnPolicy implements ReplicationPolicy, Configurable {
  private String middle;

  @Override
  public void configure(Map<String, ?> properties) {
    middle = (String) properties.get("own.policy.middle");
    if (middle == null) {
      throw new IllegalArgumentException("own.policy.middle is missing");
    }
  }

  @Override
  public String formatRemoteTopic(String source, String topic) {
    return topic + middle + source;
  }

  @Override
  public String topicSource(String topic) {
    int at = topic.lastIndexOf(middle);
    return at < 0 ? null : topic.substring(at + middle.length());
  }

  @Override
  public String upstreamTopic(String topic) {
    int at = topic.lastIndexOf(middle);
    return at < 0 ? null : topic.substring(0, at);
  }
}
