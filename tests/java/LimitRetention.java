package replication.tests;

import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * A cluster's rules: no topic has unlimited retention, and none has small segments.
 *
 * <p>The first violation names the setting, the second one does not.
 */
public final class LimitRetention implements CreateTopicPolicy, AlterConfigPolicy {
  @Override
  public void validate(CreateTopicPolicy.RequestMetadata topic) {
    check(topic.configs());
  }

  @Override
  public void validate(AlterConfigPolicy.RequestMetadata request) {
    check(request.configs());
  }

  private static void check(Map<String, String> configs) {
    if ("-1".equals(configs.get("retention.ms"))) {
      throw new PolicyViolationException("set a limit with retention.ms, this cluster is small");
    }
    if (configs.containsKey("segment.ms")) {
      throw new PolicyViolationException("too many small files");
    }
  }

  @Override
  public void configure(Map<String, ?> configs) {}

  @Override
  public void close() {}
}
