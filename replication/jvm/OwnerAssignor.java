package replication;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;

/**
 * Names the owner among the members of an {@link Ownership}'s group, and tells all of them. Public only
 * because Kafka creates it by its class name.
 */
public final class OwnerAssignor implements ConsumerPartitionAssignor, Configurable {
  private Ownership ownership;

  @Override
  public void configure(Map<String, ?> configs) {
    ownership = (Ownership) configs.get(Ownership.SELF);
  }

  @Override
  public String name() {
    return "replication-owner";
  }

  @Override
  public ByteBuffer subscriptionUserData(Set<String> topics) {
    return ownership.report();
  }

  @Override
  public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
    Map<String, Subscription> members = group.groupSubscription();
    // Of members that never were the owner any will do, if all leaders would choose the same.
    String owner =
        members.keySet().stream()
            .max(
                Comparator.comparingInt((String id) -> ownedGeneration(members.get(id)))
                    .thenComparing(Comparator.reverseOrder()))
            .orElseThrow();
    Subscription of = members.get(owner);
    String named = Ownership.identity(of.groupInstanceId().orElse(null), owner);
    byte[] sent = (named + "\n" + parts(of.userData())[1]).getBytes(StandardCharsets.UTF_8);
    Map<String, Assignment> assignments = new HashMap<>();
    members.keySet().forEach(id -> assignments.put(id, assignment(sent)));
    return new GroupAssignment(assignments);
  }

  @Override
  public void onAssignment(Assignment assignment, ConsumerGroupMetadata member) {
    String[] sent = parts(assignment.userData());
    ownership.assigned(sent[0], sent[1], member);
  }

  private static Assignment assignment(byte[] sent) {
    return new Assignment(List.of(), ByteBuffer.wrap(sent));
  }

  private static int ownedGeneration(Subscription subscription) {
    return Integer.parseInt(parts(subscription.userData())[0]);
  }

  private static String[] parts(ByteBuffer data) {
    return StandardCharsets.UTF_8.decode(data.duplicate()).toString().split("\n", 2);
  }
}
