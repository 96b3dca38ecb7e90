package replication.producer;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which records may be in flight together. */
final class BatchRoomTest {
  private static final int LIMIT = 16_000;

  private final BatchRoom room = new BatchRoom();

  @BeforeEach
  void limit() {
    room.limit(262_144, LIMIT);
    room.acknowledged();
  }

  @Test
  void aBatchKeepsAMarginToTheTopicsLimit() {
    room.add(LIMIT / 2, true);

    assertFalse(room.takes(LIMIT / 2), "records of exactly the limit, without Kafka's own bytes");
    assertFalse(room.takes(LIMIT / 2 - 61), "a compressed batch may be larger than its records");
    assertTrue(room.takes(LIMIT / 2 - LIMIT / 16 - 61));
  }

  @Test
  void aRecordThatIsSentAloneBeginsANewBatch() {
    room.add(10_000, true);
    room.add(10_000, true);

    assertTrue(room.takes(4_000), "the record before was acknowledged");
  }

  @Test
  void aRecordIsAloneUntilOneOfItsGenerationIsAcknowledged() {
    room.restart();
    room.add(100, true);
    assertFalse(room.takes(100), "the partition may not know the producer");

    room.acknowledged();
    assertTrue(room.takes(100));
  }

  @Test
  void recordsThatAreSentTogetherAddUp() {
    room.add(7_000, true);
    room.add(7_000, false);

    assertFalse(room.takes(4_000));
  }
}
