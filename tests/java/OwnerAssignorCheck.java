package replication.calls;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;

/** What members of the lease's group send that are no mirrors ends no owner, and makes none. */
final class OwnerAssignorCheck {
  private static final ByteBuffer[] MALFORMED = {
    null,
    ByteBuffer.allocate(0),
    ByteBuffer.wrap(new byte[] {(byte) 0xff, 0, 17}),
    bytes("5"),
    bytes("99999999999999\nwho"),
    bytes("\n"),
    bytes("x\ny\nz"),
  };

  public static void main(String[] arguments) throws InterruptedException {
    checkNamed();
    checkAssigned();
    System.out.println("ok");
  }

  private static void checkNamed() {
    Map<String, Subscription> members = new HashMap<>();
    for (int i = 0; i < MALFORMED.length; i++) {
      members.put("a" + i, new Subscription(List.of(), MALFORMED[i]));
    }
    members.put("m1", new Subscription(List.of(), bytes("-1\nnew")));
    check(named(members).equals("m1\nnew"), "the only mirror, by its member id and its text");
    members.put("m2", new Subscription(List.of(), bytes("3\nold\nowner")));
    check(named(members).equals("m2\nold\nowner"), "the mirror that was the owner");
  }

  private static String named(Map<String, Subscription> members) {
    Map<String, Assignment> assigned =
        new OwnerAssignor().assign(null, new GroupSubscription(members)).groupAssignment();
    check(assigned.keySet().equals(members.keySet()), "all members are told");
    return StandardCharsets.UTF_8.decode(assigned.get("m1").userData()).toString();
  }

  private static void checkAssigned() throws InterruptedException {
    Ownership ownership =
        new Ownership(
            Map.of("bootstrap.servers", "127.0.0.1:1"), "g", "i", "me", "", 10_000, 10_000, 60_000);
    OwnerAssignor assignor = new OwnerAssignor();
    assignor.configure(Map.of(Ownership.SELF, ownership));
    ConsumerGroupMetadata self = new ConsumerGroupMetadata("g", 1, "m", Optional.of("i"));
    ownership.report();
    assignor.onAssignment(new Assignment(List.of(), bytes("instance i\nme")), self);
    check(ownership.state().equals("owner"), "it is named");
    for (ByteBuffer data : new ByteBuffer[] {null, ByteBuffer.allocate(0), bytes("\nx")}) {
      assignor.onAssignment(new Assignment(List.of(), data), self);
      check(ownership.state().equals("owner"), "nobody else is named: " + ownership.reason());
    }
    assignor.onAssignment(new Assignment(List.of(), bytes("other\nit")), self);
    check(ownership.state().equals("lost"), "another one is named");
    ownership.leave();
  }

  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
