package replication.producer;

/**
 * Which records of a partition may be in flight together.
 *
 * <p>Kafka's client joins records in flight to batches. A batch that the topic rejects as too large
 * is split by {@code batch.size}: endlessly, if that joins the same records again (KAFKA-8350).
 * Hence what is in flight fits into one batch that the topic takes, or is a single record.
 *
 * <p>A broker takes any sequence number of a producer that the partition does not know. Were the
 * first batch refused, as while a leader moves, and the second one taken that was on its way, the
 * first one would be out of order for ever. Hence the first record is alone until it is answered.
 */
final class BatchRoom {
  /** Bytes of a record's own fields in a batch, at most. As in Kafka's DefaultRecord. */
  static final int RECORD_OVERHEAD = 21;

  private static final int BATCH_OVERHEAD = 61;

  private int batchSize;
  private int largestBatch;
  private int bytes; // of all records in flight where batches are limited, else of the newest one
  private boolean isKnown; // the producer, to the partition

  /**
   * Says which batches there may be.
   *
   * @param ofProducer its {@code batch.size}
   * @param ofTopic the topic's {@code max.message.bytes}, which counts compressed bytes
   */
  void limit(int ofProducer, int ofTopic) {
    batchSize = ofProducer;
    largestBatch = ofTopic - ofTopic / 16 - BATCH_OVERHEAD; // a compressed batch may be larger
  }

  /** Nobody knows from now on whether the partition knows the producer. */
  void restart() {
    isKnown = false;
  }

  /** A record has been acknowledged. */
  void acknowledged() {
    isKnown = true;
  }

  boolean isKnown() {
    return isKnown;
  }

  /** Whether a record of that many bytes may be sent while others are in flight. */
  boolean takes(int size) {
    if (!isKnown) {
      return false;
    }
    if (isLimited()) {
      return bytes + size <= largestBatch;
    }
    // A record larger than a batch gets one of its own. Kafka overestimates it by less than the
    // overhead, and a tiny record fits in there, although both may be more than the topic takes.
    return bytes + BATCH_OVERHEAD <= batchSize || size > 2 * RECORD_OVERHEAD;
  }

  /** Adds a record that is sent; {@code isAlone} if no other one is in flight. */
  void add(int size, boolean isAlone) {
    bytes = isLimited() && !isAlone ? bytes + size : size;
  }

  private boolean isLimited() {
    return largestBatch < batchSize;
  }
}
