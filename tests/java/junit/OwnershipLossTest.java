package replication.calls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import replication.producer.OwnerOnly;

/** What ends an owner's lease, and what that ends; no broker is there, so the test answers. */
final class OwnershipLossTest {
  private static final String PRODUCER = "producer of an owner that loses";
  private static final String MINE = "instance mine";
  private static final long HOUR_MS = 3_600_000;

  private Ownership owner = member(HOUR_MS, HOUR_MS);

  private static Ownership member(long silenceMs, long aloneMs) {
    return new Ownership(
        Map.of("bootstrap.servers", "localhost:1"),
        "group",
        "mine",
        "description",
        PRODUCER,
        10_000,
        12_000,
        silenceMs,
        aloneMs,
        2_000,
        1_000);
  }

  @AfterEach
  void leave() {
    Thread leaving = new Thread(this::leaveGroup); // which asks a cluster that is not there
    leaving.setDaemon(true);
    leaving.start();
    OwnerOnly.remove(PRODUCER);
  }

  private void leaveGroup() {
    try {
      owner.leave();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** The leader names an owner among some members; this one has an id of the coordinator's. */
  private void named(String name, String shown, int members, String id) {
    owner.report();
    owner.assigned(
        name, shown, members, new ConsumerGroupMetadata("group", 7, id, Optional.of("mine")));
  }

  private void isOwner(int members) {
    named(MINE, "me", members, "member-1");
    assertEquals("owner", owner.state());
    assertFalse(OwnerOnly.hasPassed(PRODUCER), "an owner's producers may send");
  }

  private void hasLost(String reason) {
    assertEquals("lost", owner.state());
    assertEquals(reason, owner.reason());
    assertTrue(OwnerOnly.hasPassed(PRODUCER), "its producers may send no more");
  }

  @Test
  void anotherOwnerEndsTheLeaseAndWhatItsProducersMaySend() {
    isOwner(2);
    named("instance other", "the other", 2, "member-1");

    hasLost("the group named another owner: the other");
    assertEquals("the other", owner.owner());
  }

  @Test
  void aMemberThatCameBackUnderAnotherIdIsNotTheOwnerAnyMore() {
    isOwner(2);
    named(MINE, "me", 2, "member-2");

    hasLost("the coordinator had expelled this member");
  }

  @Test
  void aLossIsFinalAndItsFirstReasonStays() {
    isOwner(2);
    named("instance other", "the other", 2, "member-1");
    named(MINE, "me", 1, "member-1");
    owner.answered(System.nanoTime());
    named("instance third", "the third", 2, "member-1");
    owner.lose("the consumer ended"); // as its thread says at last

    hasLost("the group named another owner: the other");
  }

  @Test
  void aLeaderThatNamesNobodyEndsNoLease() {
    isOwner(2);
    named("", "", 0, "member-1");

    assertEquals("owner", owner.state());
    assertFalse(OwnerOnly.hasPassed(PRODUCER));
  }

  @Test
  void whoeverOnlyWaitsEndsNothingOfTheLeaseThatAnotherOneOfThisProcessHolds() {
    OwnerOnly.allowUntil(PRODUCER, System.nanoTime() + TimeUnit.HOURS.toNanos(1));
    named("instance other", "the other", 2, "member-1");
    assertEquals("waiting", owner.state());
    assertFalse(OwnerOnly.hasPassed(PRODUCER));

    named("instance third", "the third", 2, "member-1");
    assertEquals("waiting", owner.state());
    assertEquals("the third", owner.seen());
    owner.lose("the consumer ended");
    assertFalse(OwnerOnly.hasPassed(PRODUCER));
  }

  @Test
  void whoeverHasSeenTheLastOwnerSaysSoUnlessItWasExpelledMeanwhile() {
    named("instance other", "the other", 2, "member-1");
    named(MINE, "me", 1, "member-1");
    assertEquals("the other", owner.seen());
    assertEquals(7, owner.generation());

    owner = member(HOUR_MS, HOUR_MS);
    named("instance other", "the other", 2, "member-1");
    named(MINE, "me", 1, "member-2");
    assertEquals("", owner.seen());
  }

  @Test
  void anOwnerIsAloneOnlyUntilItJoinsAgain() {
    owner = member(30, HOUR_MS);
    isOwner(1);
    pass(60);
    assertEquals("owner", owner.state(), "nobody can follow it soon");
    owner.answered(System.nanoTime());
    owner.report(); // another member may come in by now

    pass(60);
    assertEquals("lost", owner.state());
    assertTrue(OwnerOnly.hasPassed(PRODUCER));
  }

  @Test
  void anAnswerCountsFromTheTimeAtWhichItsHeartbeatWasSent() {
    owner = member(1_000, 1_000);
    isOwner(2);
    long sent = System.nanoTime();
    pass(700);
    owner.answered(sent); // which came late
    pass(400);

    assertEquals("lost", owner.state());
    assertTrue(owner.reason().startsWith("no heartbeat was answered for "), owner.reason());
    assertTrue(OwnerOnly.hasPassed(PRODUCER));
  }

  private static void pass(long ms) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    while (System.nanoTime() - end < 0) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
  }
}
