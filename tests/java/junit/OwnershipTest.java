package replication.calls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import replication.producer.OwnerOnly;

/** What an owner makes of answers; no broker is there, so the test gives them. */
final class OwnershipTest {
  private static final String PRODUCER = "producer of an owner";
  private static final long SILENCE_MS = 20;

  private final Ownership owner =
      new Ownership(
          Map.of("bootstrap.servers", "localhost:1"),
          "group",
          "instance",
          "description",
          PRODUCER,
          10_000,
          12_000,
          SILENCE_MS,
          SILENCE_MS,
          2_000,
          1_000);

  @AfterEach
  void leave() throws InterruptedException {
    owner.leave();
    OwnerOnly.remove(PRODUCER);
  }

  private void name() {
    owner.report();
    ConsumerGroupMetadata member =
        new ConsumerGroupMetadata("group", 1, "member", Optional.of("instance"));
    owner.assigned("instance instance", "shown", 1, member);
  }

  private static void passLimit() {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2 * SILENCE_MS);
    while (System.nanoTime() - end < 0) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
  }

  @Test
  void aHeartbeatThatIsAnsweredTooLateDoesNotGiveTheLeaseBack() {
    name();
    passLimit(); // producers refuse records by now
    owner.answered(System.nanoTime());

    assertTrue(OwnerOnly.hasPassed(PRODUCER));
    assertEquals("lost", owner.state());
  }

  @Test
  void aGroupThatNamesItsOwnerTooLateDoesNotGiveTheLeaseBack() {
    name();
    passLimit();
    name();

    assertTrue(OwnerOnly.hasPassed(PRODUCER));
    assertEquals("lost", owner.state());
  }
}
