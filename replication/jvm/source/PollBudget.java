package replication.source;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The keys and values of a poll, as long as they are not more bytes than a task may hold.
 *
 * <p>Kafka's client decompresses while it makes records of what was fetched, and counts records
 * only: a megabyte of a fetch may become a hundred. Here, where each of them passes, is the one
 * place that sees it in time.
 */
final class PollBudget extends ByteArrayDeserializer {
  private static final int FEW = 32; // large records, of which a fetch always has some

  private final long most;
  private long bytes;
  private int count;

  /** A poll is given up. No exception: the client would log it, and hold the record back. */
  static final class Exceeded extends Error {
    private static final long serialVersionUID = 1;

    private Exceeded(long most) {
      super("more than " + most + " bytes of records in a poll", null, false, false);
    }
  }

  PollBudget(long most) {
    this.most = most;
  }

  /** Begins a poll. */
  void begin() {
    bytes = 0;
    count = 0;
  }

  @Override
  public byte[] deserialize(String topic, byte[] data) {
    if (data != null) {
      add(data.length);
    }
    return data;
  }

  void add(int size) {
    count++;
    bytes += size;
    if (bytes > most && count > FEW) {
      throw new Exceeded(most);
    }
  }
}
