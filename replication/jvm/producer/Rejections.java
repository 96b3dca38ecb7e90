package replication.producer;

import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** What a broker says of records that it will never take. */
final class Rejections {
  private static final int MOST_CHARACTERS = 500;

  /** What the other records of a batch get where one was rejected, in Kafka's Sender. */
  private static final Class<?> OF_BATCH = KafkaException.class;

  private Rejections() {}

  /**
   * The text of a rejection: {@code known} or that of {@code reason}, whichever says more; null if
   * neither is one. One line without tabs.
   */
  static String more(String known, Exception reason) {
    if (known != null && !known.startsWith(OF_BATCH.getSimpleName())) {
      return known;
    }
    boolean isOwn =
        reason instanceof InvalidRecordException
            || reason instanceof InvalidTimestampException
            || reason instanceof RecordTooLargeException;
    boolean isOfBatch = reason != null && reason.getClass() == OF_BATCH;
    if (!isOwn && (!isOfBatch || known != null)) {
      return known;
    }
    String text = String.valueOf(reason.getMessage()).replaceAll("\\s+", " ");
    return reason.getClass().getSimpleName()
        + ": "
        + text.substring(0, Math.min(text.length(), MOST_CHARACTERS));
  }
}
