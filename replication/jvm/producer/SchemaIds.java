package replication.producer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Puts the ids that the target's schema registry gave into the records of one topic of a flow.
 *
 * <p>A framed key or value begins with a zero and four bytes of an id, which are overwritten where
 * they are: Spark's sink makes an array of its own for each key and value. A record whose id is not
 * known waits until the driver has answered a report that names it, or the task is cancelled. The
 * shared source lets it wait before the task has it, so that only its partition waits ({@link
 * SchemaGate}); else it waits here, with its task. Nothing of it is in flight meanwhile.
 *
 * <p>A key or value whose schema is named by a header has no frame, whatever its bytes are: an id
 * there is replaced as one of a frame is. A GUID is the same in all registries and stays; the
 * record waits until the driver has registered its schema, or has said that it cannot.
 */
public final class SchemaIds {
  /** Begins a line of a report with an id that is waited for. */
  public static final String WANTED = "schema";

  /** Begins a line of an answer: {@code flow topic part from=to,...}. */
  public static final String ANSWER = "schemas";

  /** Begins a line of a report with a partition that its batch leaves out. */
  public static final String LEFT = "left";

  /**
   * Task property: {@code copy} or {@code fail}, then remote topics and those that they are copies
   * of, or nothing in their place where records change on the way: {@code copy,A.orders:orders,}.
   */
  static final String TOPICS = "replication.schemas";

  /** What a report names in the place of an id where a record has none. */
  static final String UNFRAMED = "-";

  /** What an answer gives in the place of an id that a record will not get. */
  public static final String REFUSED = "!";

  private static final String FAIL = "fail";
  private static final int FRAME = 1 + Integer.BYTES;
  private static final int GUID = 1 + 2 * Long.BYTES; // a one, then the GUID
  private static final Map<String, SchemaIds> KNOWN = new ConcurrentHashMap<>(); // by flow, topic
  private static final Set<Want> ASKED = new HashSet<>(); // those of the last report
  private static final Set<Want> LEAVING = new HashSet<>(); // those of them that leave

  private final String place; // flow, topic
  private final Part key = new Part("key");
  private final Part value = new Part("value");

  private SchemaIds(String place) {
    this.place = place;
  }

  /** A record that waits. What is refused to it may be given to the next one. */
  public static final class Want {
    private final Part part;
    private final String record; // partition, offset, part
    private final String shown;
    private final Object id; // an Integer, a UUID, or null
    private final boolean isAlone;
    private volatile boolean isRefused;
    private volatile String leaving = ""; // a line of the report once it leaves its batch
    private volatile boolean isAsked;
    private volatile boolean isLeft;

    private Want(Part part, int partition, long offset, Object id, boolean isAlone) {
      this.part = part;
      record = String.join("\t", "" + partition, "" + offset, part.name);
      String name = id == null ? UNFRAMED : id.toString();
      shown = id instanceof Integer number ? Integer.toUnsignedString(number) : name;
      this.id = id;
      this.isAlone = isAlone;
      part.wanted.add(this);
    }

    /** Whether it goes without an id. */
    public boolean isRefused() {
      return isRefused;
    }

    /** Whether it waits no longer. */
    public boolean isOver() {
      return isRefused || (id != null && part.knows(id));
    }

    /** Whether the driver has had an answer to give, and had none. */
    public boolean isInVain() {
      return isAsked && !isOver();
    }

    /** Lets the driver know, by {@code line}, that its batch ends before it. */
    public void leave(String line) {
      leaving = line + ',' + part.name + ',' + shown + '\n';
    }

    /** Whether it has been left, or is to be. */
    public boolean isLeaving() {
      return !leaving.isEmpty();
    }

    /** Whether the driver knows that it was left. */
    public boolean isLeft() {
      return isLeft;
    }

    /** Forgets it. */
    public void end() {
      part.wanted.remove(this);
    }
  }

  /** The ids of keys, or those of values. */
  private static final class Part {
    private final String name;
    private final String header;
    private final Set<Want> wanted = ConcurrentHashMap.newKeySet();
    private final Set<UUID> guids = ConcurrentHashMap.newKeySet(); // which need no more waiting
    private volatile int[][] ids = {{}, {}}; // sorted ids of the source, and those of the target

    private Part(String name) {
      this.name = name;
      header = "__" + name + "_schema_id";
    }

    private boolean knows(Object id) {
      return id instanceof Integer number
          ? Arrays.binarySearch(ids[0], number) >= 0
          : guids.contains(id);
    }

    /** The header that names the schema of this part, as Confluent's deserialisers find it. */
    private byte[] named(Headers headers) {
      Header last = headers.lastHeader(header);
      return last == null ? null : last.value();
    }

    /** The id at {@code from}, an Integer or a UUID; null for none. */
    private static Object id(byte[] bytes, int from, boolean isHeader) {
      int length = bytes.length - from;
      if (length >= FRAME && bytes[from] == 0) {
        return ByteBuffer.wrap(bytes).getInt(from + 1);
      }
      if (isHeader && length >= GUID && bytes[from] == 1) {
        ByteBuffer guid = ByteBuffer.wrap(bytes, from + 1, GUID - 1);
        return new UUID(guid.getLong(), guid.getLong());
      }
      return null;
    }

    private Want ask(byte[] bytes, Headers headers, int partition, long offset) {
      if (bytes == null) {
        return null;
      }
      byte[] named = named(headers);
      Object id = id(named == null ? bytes : named, 0, named != null);
      return id == null || knows(id) ? null : new Want(this, partition, offset, id, true);
    }

    private void translate(
        byte[] bytes, int from, Headers headers, int partition, long offset, boolean mustHave)
        throws InterruptedException {
      byte[] named = named(headers);
      byte[] carrier = named == null ? bytes : named;
      int at = named == null ? from : 0;
      Object id = id(carrier, at, named != null);
      if (id == null ? mustHave : !knows(id)) {
        await(new Want(this, partition, offset, id, false));
      }
      if (id instanceof Integer number) {
        int[][] known = ids;
        int own = known[1][Arrays.binarySearch(known[0], number)];
        ByteBuffer.wrap(carrier).putInt(at + 1, own);
      }
    }

    private synchronized void await(Want want) throws InterruptedException {
      try {
        while (!want.isOver()) {
          wait();
        }
        if (want.isRefused) {
          throw new IllegalStateException("schema id " + want.shown + " is refused");
        }
      } finally {
        want.end();
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
          wanted.stream()
              .filter(want -> want.shown.equals(both[0]))
              .forEach(want -> want.isRefused = true);
          continue;
        }
        if (both[0].indexOf('-') >= 0) {
          guids.add(UUID.fromString(both[0]));
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
    return topics.contains("," + topic + ":") ? of(flow, topic) : null;
  }

  static SchemaIds of(String flow, String topic) {
    return KNOWN.computeIfAbsent(flow + '\t' + topic, SchemaIds::new);
  }

  /** Whether a record without an id is not copied. */
  static boolean mustHave(String topics) {
    return topics.startsWith(FAIL);
  }

  /** Takes what the driver knows: {@code flow topic part from=to,...}. */
  public static void obey(String answer) {
    String[] words = answer.split("\t");
    SchemaIds ids = of(words[0], words[1]);
    (words[2].equals(ids.key.name) ? ids.key : ids.value).add(words[3]);
  }

  /** Whether a record waits, so that the next report should come soon. */
  public static boolean isAwaited() {
    return KNOWN.values().stream().flatMap(SchemaIds::wants).anyMatch(want -> !want.isOver());
  }

  private Stream<Want> wants() {
    return Stream.concat(key.wanted.stream(), value.wanted.stream());
  }

  /**
   * Appends {@code schema flow topic partition offset part id alone} for each record that waits,
   * with {@code task} in the place of the last word where its task waits with it, and {@code left
   * token generation topic partition batch,offset,upstream,part,id} for each that its batch leaves
   * out.
   */
  public static void report(StringBuilder lines) {
    LEAVING.clear();
    ASKED.clear();
    for (SchemaIds ids : KNOWN.values()) {
      ids.wants()
          .forEach(
              want -> {
                if (!want.isOver()) {
                  String how = want.isAlone ? "alone" : "task";
                  String record = String.join("\t", ids.place, want.record, want.shown, how);
                  lines.append(WANTED).append('\t').append(record).append('\n');
                }
                if (want.isLeaving() && !want.isLeft) {
                  lines.append(want.leaving);
                  LEAVING.add(want);
                }
                ASKED.add(want);
              });
    }
  }

  /** Takes note that the driver has got the last report, and was obeyed. */
  public static void reported() {
    LEAVING.forEach(want -> want.isLeft = true);
    ASKED.forEach(want -> want.isAsked = true);
  }

  /** Asks for an id that a record of the source lacks; null if it lacks none. */
  Want ask(ConsumerRecord<byte[], byte[]> record) {
    Headers headers = record.headers();
    Want want = value.ask(record.value(), headers, record.partition(), record.offset());
    return want != null
        ? want
        : key.ask(record.key(), headers, record.partition(), record.offset());
  }

  /**
   * Replaces the ids of one record's key, which begins at {@code from} in its array, and value, or
   * of the headers that name their schemas, in the arrays of these.
   *
   * @param keyed null if the record has no key
   * @param valued null if it has no value
   * @param mustHave whether a key or value without an id is not copied
   */
  void translate(
      byte[] keyed,
      int from,
      byte[] valued,
      Headers headers,
      int partition,
      long offset,
      boolean mustHave)
      throws InterruptedException {
    if (valued != null) {
      value.translate(valued, 0, headers, partition, offset, mustHave);
    }
    if (keyed != null) {
      key.translate(keyed, from, headers, partition, offset, false); // keys are often plain
    }
  }
}
