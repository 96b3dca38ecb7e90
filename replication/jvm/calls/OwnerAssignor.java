package replication.calls;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;

/**
 * Names the owner among the members of an {@link Ownership}'s group, and tells all of them. Public
 * only because Kafka creates it by its class name.
 */
public final class OwnerAssignor implements ConsumerPartitionAssignor, Configurable {
  /** What members are shown of the owner, and how many they are. */
  private static final Pattern COUNTED = Pattern.compile("(.*)\n([0-9]{1,9})", Pattern.DOTALL);

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
    // Of members that never were the owner any will do, if all leaders would choose the same. One
    // that does not say who it is, is no mirror, and only the owner if there is no other one.
    String owner =
        members.keySet().stream()
            .max(
                Comparator.comparing((String id) -> said(members.get(id)))
                    .thenComparing(Comparator.reverseOrder()))
            .orElseThrow();
    Subscription of = members.get(owner);
    String named = Ownership.identity(of.groupInstanceId().orElse(null), owner);
    String sentText = named + "\n" + said(of).text + "\n" + members.size();
    byte[] sent = sentText.getBytes(StandardCharsets.UTF_8);
    Map<String, Assignment> assignments = new HashMap<>();
    members.keySet().forEach(id -> assignments.put(id, assignment(sent)));
    return new GroupAssignment(assignments);
  }

  @Override
  public void onAssignment(Assignment assignment, ConsumerGroupMetadata member) {
    String[] sent = parts(assignment.userData());
    Matcher counted = COUNTED.matcher(sent[1]); // a leader of an earlier version does not count
    boolean isCounted = counted.matches();
    String shown = isCounted ? counted.group(1) : sent[1];
    int members = isCounted ? Integer.parseInt(counted.group(2)) : 0;
    ownership.assigned(sent[0], shown, members, member);
  }

  private static Assignment assignment(byte[] sent) {
    return new Assignment(List.of(), ByteBuffer.wrap(sent));
  }

  /** What a member says of itself; anybody may join a group, and say anything. */
  private record Said(int ownedGeneration, String text) implements Comparable<Said> {
    @Override
    public int compareTo(Said other) {
      return Integer.compare(ownedGeneration, other.ownedGeneration);
    }
  }

  private static final Said NO_MIRROR = new Said(Integer.MIN_VALUE, "");

  private static Said said(Subscription subscription) {
    String[] parts = parts(subscription.userData());
    try {
      int ownedGeneration = Integer.parseInt(parts[0]);
      return parts[1].isEmpty() ? NO_MIRROR : new Said(ownedGeneration, parts[1]);
    } catch (NumberFormatException e) {
      return NO_MIRROR;
    }
  }

  /** The two lines of what was sent; an empty one for each that is missing. */
  private static String[] parts(ByteBuffer data) {
    String text = data == null ? "" : StandardCharsets.UTF_8.decode(data.duplicate()).toString();
    String[] lines = text.split("\n", 2);
    return lines.length == 2 ? lines : new String[] {lines[0], ""};
  }
}
