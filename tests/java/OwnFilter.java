package replication.tests;

import java.util.Map;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.GroupFilter;
import org.apache.kafka.connect.mirror.TopicFilter;

/** Takes what ends with a text, and no setting of retention. */
public final class OwnFilter implements TopicFilter, GroupFilter, ConfigPropertyFilter {
  private String ending;

  @Override
  public void configure(Map<String, ?> properties) {
    ending = String.valueOf(properties.get("own.filter.ending"));
  }

  @Override
  public boolean shouldReplicateTopic(String topic) {
    return topic.endsWith(ending);
  }

  @Override
  public boolean shouldReplicateGroup(String group) {
    return group.endsWith(ending);
  }

  @Override
  public boolean shouldReplicateConfigProperty(String key) {
    return !key.startsWith("retention.");
  }

  @Override
  public void close() {}
}
