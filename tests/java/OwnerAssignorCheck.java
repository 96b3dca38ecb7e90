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
    checkSilence();
    checkSeen();
    System.out.println("ok");
  }

  private static void checkNamed() {
    Map<String, Subscription> members = new HashMap<>();
    for (int i = 0; i < MALFORMED.length; i++) {
      members.put("a" + i, new Subscription(List.of(), MALFORMED[i]));
    }
    members.put("m1", new Subscription(List.of(), bytes("-1\nnew")));
    check(named(members).equals("m1\nnew\n8"), "the only mirror, by its member id and its text");
    members.put("m2", new Subscription(List.of(), bytes("3\nold\nowner")));
    check(named(members).equals("m2\nold\nowner\n9"), "the mirror that was the owner");
  }

  private static String named(Map<String, Subscription> members) {
    Map<String, Assignment> assigned =
        new OwnerAssignor().assign(null, new GroupSubscription(members)).groupAssignment();
    check(assigned.keySet().equals(members.keySet()), "all members are told");
    return StandardCharsets.UTF_8.decode(assigned.get("m1").userData()).toString();
  }

  private static void checkAssigned() throws InterruptedException {
    Ownership ownership = ownership(60_000);
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

  /** An owner of which nobody hears is one for long only if nobody could follow it. */
  private static void checkSilence() throws InterruptedException {
    ConsumerGroupMetadata self = new ConsumerGroupMetadata("g", 1, "m", Optional.of("i"));
    Ownership ownership = ownership(1);
    ownership.report();
    ownership.assigned("instance i", "me", 1, self);
    Thread.sleep(5);
    check(ownership.state().equals("owner"), "it is alone");
    ownership.report();
    check(ownership.state().equals("lost"), "another member may come");
    ownership.leave();
    for (int members : new int[] {0, 2}) {
      Ownership followed = ownership(1);
      followed.report();
      followed.assigned("instance i", "me", members, self);
      Thread.sleep(5);
      check(followed.state().equals("lost"), "others are there, or may be: " + members);
      followed.leave();
    }
  }

  /** A standby that was expelled meanwhile does not know what the owner has thought of it. */
  private static void checkSeen() throws InterruptedException {
    for (String id : new String[] {"m", "another"}) {
      Ownership standby = ownership(60_000);
      standby.report();
      ConsumerGroupMetadata self = new ConsumerGroupMetadata("g", 1, "m", Optional.of("i"));
      standby.assigned("other", "first", 2, self);
      standby.report();
      ConsumerGroupMetadata later = new ConsumerGroupMetadata("g", 2, id, Optional.of("i"));
      standby.assigned("instance i", "me", 1, later);
      check(standby.seen().equals(id.equals("m") ? "first" : ""), "seen as " + id);
      standby.leave();
    }
  }

  private static Ownership ownership(long silenceMs) {
    Map<String, String> nobody = Map.of("bootstrap.servers", "127.0.0.1:1");
    return new Ownership(
        nobody, "g", "i", "me", "", 10_000, 10_000, silenceMs, 60_000, 2_000, 1_000);
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
