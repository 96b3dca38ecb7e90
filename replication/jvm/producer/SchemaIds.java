package replication.producer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Puts the ids that the target's schema registry gave into the records of one topic of a flow.
 *
 * <p>A framed key or value begins with a zero and four bytes of an id, which are overwritten where
 * they are: Spark's sink makes an array of its own for each key and value. A record whose id is not
 * known waits, with its task, until the driver has answered a report that names it, or the task is
 * cancelled. Nothing of it is in flight meanwhile.
 */
public final class SchemaIds {
  /** Begins a line of a report with an id that is waited for. */
  public static final String WANTED = "schema";

  /** Begins a line of an answer: {@code flow topic part from=to,...}. */
  public static final String ANSWER = "schemas";

  /** Task property: {@code copy} or {@code fail}, then the topics: {@code copy,A.orders,*,}. */
  static final String TOPICS = "replication.schemas";

  /** What a report names in the place of an id where a record has none. */
  static final String UNFRAMED = "-";

  /** What an answer gives in the place of an id that a record will not get. */
  public static final String REFUSED = "!";

  private static final String FAIL = "fail";
  private static final int FRAME = 1 + Integer.BYTES;
  private static final Map<String, SchemaIds> KNOWN = new ConcurrentHashMap<>(); // by flow, topic

  private final String place; // flow, topic
  private final Part key = new Part("key");
  private final Part value = new Part("value");

  private SchemaIds(String place) {
    this.place = place;
  }

  /** A record that waits. What is refused to it may be given to the next one. */
  private static final class Want {
    private final String record; // partition, offset, part
    private final String id;
    private boolean isRefused;

    private Want(String record, String id) {
      this.record = record;
      this.id = id;
    }

    private void refuse() {
      isRefused = true;
    }
  }

  /** The ids of keys, or those of values. */
  private static final class Part {
    private final String name;
    private final Set<Want> wanted = ConcurrentHashMap.newKeySet();
    private volatile int[][] ids = {{}, {}}; // sorted ids of the source, and those of the target

    private Part(String name) {
      this.name = name;
    }

    private void translate(byte[] bytes, int from, int partition, long offset, boolean mustHave)
        throws InterruptedException {
      if (bytes.length - from < FRAME || bytes[from] != 0) {
        if (mustHave) {
          await(partition, offset, UNFRAMED, 0);
        }
        return;
      }
      ByteBuffer frame = ByteBuffer.wrap(bytes, from + 1, Integer.BYTES);
      int id = frame.getInt(from + 1);
      int[][] known = ids;
      int at = Arrays.binarySearch(known[0], id);
      if (at < 0) {
        await(partition, offset, Integer.toUnsignedString(id), id);
        known = ids;
        at = Arrays.binarySearch(known[0], id);
      }
      frame.putInt(from + 1, known[1][at]);
    }

    private void await(int partition, long offset, String shown, int id)
        throws InterruptedException {
      Want want = new Want(String.join("\t", "" + partition, "" + offset, name), shown);
      synchronized (this) {
        wanted.add(want);
        try {
          while (shown.equals(UNFRAMED) || Arrays.binarySearch(ids[0], id) < 0) {
            if (want.isRefused) {
              throw new IllegalStateException("schema id " + shown + " is refused");
            }
            wait();
          }
        } finally {
          wanted.remove(want);
        }
      }
    }

    private synchronized void add(String pairs) {
      Map<Integer, Integer> sum = new TreeMap<>();
      for (int i = 0; i < ids[0].length; i++) {
        sum.put(ids[0][i], ids[1][i]);
      }
      for (String pair : pairs.split(",")) {
        String[] both = pair.split("=");
        if (both[1].equals(REFUSED)) {
          wanted.stream().filter(want -> want.id.equals(both[0])).forEach(Want::refuse);
          continue;
        }
        sum.put(Integer.parseUnsignedInt(both[0]), Integer.parseUnsignedInt(both[1]));
      }
      int[] from = sum.keySet().stream().mapToInt(Integer::intValue).toArray();
      ids = new int[][] {from, sum.values().stream().mapToInt(Integer::intValue).toArray()};
      notifyAll();
    }
  }

  /** The ids of a topic of {@code flow}; null if its records carry none by the task's property. */
  static SchemaIds of(String topics, String flow, String topic) {
    if (!topics.contains("," + topic + ",") && !topics.contains(",*,")) {
      return null;
    }
    return KNOWN.computeIfAbsent(flow + '\t' + topic, SchemaIds::new);
  }

  /** Whether a record without an id is not copied. */
  static boolean mustHave(String topics) {
    return topics.startsWith(FAIL);
  }

  /** Takes what the driver knows: {@code flow topic part from=to,...}. */
  public static void obey(String answer) {
    String[] words = answer.split("\t");
    SchemaIds ids = KNOWN.computeIfAbsent(words[0] + '\t' + words[1], SchemaIds::new);
    (words[2].equals(ids.key.name) ? ids.key : ids.value).add(words[3]);
  }

  /** Whether a task waits, so that the next report should come soon. */
  public static boolean isAwaited() {
    return KNOWN.values().stream()
        .anyMatch(ids -> !ids.key.wanted.isEmpty() || !ids.value.wanted.isEmpty());
  }

  /** Appends {@code schema flow topic partition offset part id} for each record that waits. */
  public static void report(StringBuilder lines) {
    for (SchemaIds ids : KNOWN.values()) {
      for (Part part : new Part[] {ids.key, ids.value}) {
        for (Want want : part.wanted) {
          String record = String.join("\t", WANTED, ids.place, want.record, want.id);
          lines.append(record).append('\n');
        }
      }
    }
  }

  /**
   * Replaces the ids of one record's key, which begins at {@code from} in its array, and value.
   *
   * @param keyed null if the record has no key
   * @param valued null if it has no value
   * @param mustHave whether a key or value without an id is not copied
   */
  void translate(
      byte[] keyed, int from, byte[] valued, int partition, long offset, boolean mustHave)
      throws InterruptedException {
    if (valued != null) {
      value.translate(valued, 0, partition, offset, mustHave);
    }
    if (keyed != null) {
      key.translate(keyed, from, partition, offset, false); // keys are often plain
    }
  }
}
