package replication.producer;

import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** What a broker says of records that it will never take. */
final class Rejections {
  private static final int MOST_CHARACTERS = 500;

  /**
   * What the other records of a batch get where one was rejected, in Kafka's Sender. Its class says
   * nothing: a producer that is closed or cannot go on has the same one for each record.
   */
  private static final String OF_BATCH = "part of a batch which had one more more invalid records";

  private Rejections() {}

  /**
   * The text of a rejection: {@code known} or that of {@code reason}, whichever says more; null if
   * neither is one. One line without tabs.
   */
  static String more(String known, Exception reason) {
    if (known != null && !known.contains(OF_BATCH)) {
      return known;
    }
    boolean isOwn =
        reason instanceof InvalidRecordException
            || reason instanceof InvalidTimestampException
            || reason instanceof RecordTooLargeException;
    String text = reason == null ? "" : String.valueOf(reason.getMessage()).replaceAll("\\s+", " ");
    if (!isOwn && (known != null || !text.contains(OF_BATCH))) {
      return known;
    }
    return reason.getClass().getSimpleName()
        + ": "
        + text.substring(0, Math.min(text.length(), MOST_CHARACTERS));
  }
}
