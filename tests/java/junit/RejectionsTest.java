package replication.producer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.NetworkException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.junit.jupiter.api.Test;

/** Which failures say that a broker will never take a record, and which text is kept. */
final class RejectionsTest {
  private static final String TEXT =
      "Failed to append record because it was part of a batch which had one more more invalid"
          + " records";
  private static final String OF_BATCH = "KafkaException: " + TEXT;

  @Test
  void theRecordsOwnRejectionSaysMoreThanThatOfItsBatch() {
    String own = "RecordTooLargeException: 2000 bytes";

    assertEquals(own, Rejections.more(OF_BATCH, new RecordTooLargeException("2000 bytes")));
    assertEquals(own, Rejections.more(own, new KafkaException(TEXT)));
    assertEquals(own, Rejections.more(own, new InvalidRecordException("another one")));
  }

  @Test
  void theFirstTextOfABatchStays() {
    String known = Rejections.more(null, new KafkaException(TEXT));

    assertEquals(OF_BATCH, known);
    assertEquals(OF_BATCH, Rejections.more(known, new KafkaException(TEXT + " again")));
  }

  @Test
  void whatMayPassIsNoRejection() {
    assertNull(Rejections.more(null, new NetworkException("disconnected")));
    assertNull(Rejections.more(null, null));
  }

  @Test
  void whatAProducerSaysOfItselfIsNoRejection() {
    var denied = new ClusterAuthorizationException("Cluster authorization failed.");

    assertNull(Rejections.more(null, new KafkaException("Producer is closed forcefully.")));
    assertNull(Rejections.more(null, new KafkaException("we are in an error state", denied)));
  }

  @Test
  void everyKindOfRejectionIsKnown() {
    assertEquals(
        "InvalidTimestampException: a", Rejections.more(null, new InvalidTimestampException("a")));
    assertEquals(
        "InvalidRecordException: a", Rejections.more(null, new InvalidRecordException("a")));
  }

  @Test
  void theTextIsOneLineWithoutTabsAndNotLong() {
    String text = Rejections.more(null, new InvalidRecordException("a\tb\nc" + "d".repeat(10_000)));

    assertTrue(text.startsWith("InvalidRecordException: a b cddd"), text);
    assertEquals("InvalidRecordException: ".length() + 500, text.length());
  }
}
