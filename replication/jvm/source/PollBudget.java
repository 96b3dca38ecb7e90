package replication.source;

import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The keys and values of a poll, as long as they are not more bytes than a task may hold.
 *
 * <p>Kafka's client decompresses while it makes records of what was fetched, and counts records
 * only: a megabyte of a fetch may become a hundred. Here, where each of them passes, is the one
 * place that sees it in time. It sees, too, to which cluster the client has gone: one that no
 * broker answers any more begins anew with its addresses, and one of these may be another cluster's
 * by now.
 */
final class PollBudget extends ByteArrayDeserializer implements ClusterResourceListener {
  private static final int FEW = 32; // large records, of which a fetch always has some

  private final long most;
  private final String cluster; // its id; empty if nobody knows it
  private String found; // the id of another one
  private long bytes;
  private int count;

  /** A poll is given up. No exception: the client would log it, and hold the record back. */
  static final class Exceeded extends Error {
    private static final long serialVersionUID = 1;

    private Exceeded(long most) {
      super("more than " + most + " bytes of records in a poll", null, false, false);
    }
  }

  /** What is read is not the cluster's. No exception: the client would hold the record back. */
  static final class Elsewhere extends Error {
    private static final long serialVersionUID = 1;

    private Elsewhere(String text) {
      super(text, null, false, false);
    }
  }

  PollBudget(long most, String cluster) {
    this.most = most;
    this.cluster = cluster;
  }

  /** Called by the client with each answer that names the brokers, before it asks any of them. */
  @Override
  public void onUpdate(ClusterResource now) {
    if (!cluster.isEmpty() && now.clusterId() != null && !cluster.equals(now.clusterId())) {
      found = now.clusterId();
    }
  }

  /** Begins a poll. */
  void begin() {
    bytes = 0;
    count = 0;
    check();
  }

  /** Whether the client is where it began; it stays elsewhere once it has been there. */
  void check() {
    if (found != null) {
      throw new Elsewhere(
          "an address of bootstrap.servers leads to the cluster with the id " + found);
    }
  }

  @Override
  public byte[] deserialize(String topic, byte[] data) {
    check();
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
