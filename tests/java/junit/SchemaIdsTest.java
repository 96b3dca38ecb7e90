package replication.producer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

/** Ids of schemas in records, and what waits for one. */
final class SchemaIdsTest {
  private static final String TOPICS = "copy,A.clicks:,A.orders:orders,";
  private static int flows;

  private final String flow = "A->B" + flows++;
  private final SchemaIds ids = SchemaIds.of(TOPICS, flow, "A.orders");

  private static byte[] framed(int before, int id, String rest) {
    return ByteBuffer.allocate(before + 5 + rest.length())
        .position(before)
        .put((byte) 0)
        .putInt(id)
        .put(rest.getBytes())
        .array();
  }

  private void tell(String part, String pairs) {
    SchemaIds.obey(flow + "\tA.orders\t" + part + "\t" + pairs);
  }

  private Thread translating(byte[] value, FutureTask<Void> result) {
    Thread thread = new Thread(result);
    thread.start();
    return thread;
  }

  private FutureTask<Void> task(byte[] value, boolean mustHave) {
    return new FutureTask<>(
        () -> {
          ids.translate(null, 0, value, new RecordHeaders(), 3, 42, mustHave);
          return null;
        });
  }

  private static String awaitReport() throws InterruptedException {
    StringBuilder lines = new StringBuilder();
    while (lines.length() == 0) {
      SchemaIds.report(lines);
      Thread.sleep(1);
    }
    return lines.toString();
  }

  @Test
  void onlyNamedTopicsCarryIds() {
    assertNotNull(ids);
    assertNull(SchemaIds.of(TOPICS, flow, "A.order"));
    assertNull(SchemaIds.of("", flow, "A.orders"));
    assertNotNull(SchemaIds.of(TOPICS, flow, "A.clicks"));
    assertTrue(SchemaIds.mustHave("fail,A.orders:orders,"));
    assertFalse(SchemaIds.mustHave(TOPICS));
  }

  @Test
  void anIdIsReplacedWhereItIs() throws InterruptedException {
    tell("value", "7=1000,4294967295=5");
    tell("value", "8=9");
    tell("key", "7=2");
    byte[] value = framed(0, 7, "value");
    byte[] key = framed(20, 7, "key");

    ids.translate(key, 20, value, new RecordHeaders(), 0, 0, true);

    assertArrayEquals(framed(0, 1000, "value"), value);
    assertArrayEquals(framed(20, 2, "key"), key);
    byte[] highest = framed(0, -1, "");
    ids.translate(null, 0, highest, new RecordHeaders(), 0, 0, true);
    assertArrayEquals(framed(0, 5, ""), highest);
  }

  @Test
  void whatHasNoFrameIsCopiedAsItIs() throws InterruptedException {
    for (String text : new String[] {"", "{}", "\0\0\0\0", "\1\0\0\0\7x"}) {
      byte[] value = text.getBytes();
      ids.translate(value.clone(), 0, value, new RecordHeaders(), 0, 0, false);
      assertArrayEquals(text.getBytes(), value);
    }
    ids.translate(null, 0, null, new RecordHeaders(), 0, 0, true);
  }

  @Test
  void anUnknownIdWaitsUntilItIsToldAndIsNamedMeanwhile() throws Exception {
    byte[] value = framed(0, 11, "x");
    FutureTask<Void> result = task(value, false);
    translating(value, result);

    assertEquals("schema\t" + flow + "\tA.orders\t3\t42\tvalue\t11\ttask\n", awaitReport());
    tell("value", "10=1");
    assertFalse(result.isDone());
    assertTrue(SchemaIds.isAwaited());
    tell("value", "11=12");
    result.get(10, TimeUnit.SECONDS);

    assertArrayEquals(framed(0, 12, "x"), value);
    StringBuilder lines = new StringBuilder();
    SchemaIds.report(lines);
    assertEquals("", lines.toString());
  }

  @Test
  void aTaskThatIsCancelledWaitsNoLonger() throws Exception {
    byte[] value = framed(0, 11, "x");
    FutureTask<Void> result = task(value, false);
    Thread thread = translating(value, result);
    awaitReport();

    thread.interrupt();

    Exception error = assertThrows(Exception.class, () -> result.get(10, TimeUnit.SECONDS));
    assertEquals(InterruptedException.class, error.getCause().getClass());
    assertFalse(SchemaIds.isAwaited());
  }

  @Test
  void aRecordThatMustHaveAnIdIsNamed() throws Exception {
    FutureTask<Void> result = task("{}".getBytes(), true);
    translating("{}".getBytes(), result);

    assertEquals("schema\t" + flow + "\tA.orders\t3\t42\tvalue\t-\ttask\n", awaitReport());
    tell("value", "-=!");
    Exception error = assertThrows(Exception.class, () -> result.get(10, TimeUnit.SECONDS));
    assertEquals(IllegalStateException.class, error.getCause().getClass());
  }

  @Test
  void whatIsRefusedToOneRecordIsAskedForAgainByTheNext() throws Exception {
    FutureTask<Void> first = task(framed(0, 13, "x"), false);
    translating(null, first);
    awaitReport();
    tell("value", "13=!");
    assertThrows(Exception.class, () -> first.get(10, TimeUnit.SECONDS));

    FutureTask<Void> second = task(framed(0, 13, "x"), false);
    translating(null, second);
    awaitReport();
    tell("value", "13=14");
    second.get(10, TimeUnit.SECONDS);
  }

  private static byte[] guid(UUID guid) {
    ByteBuffer bytes = ByteBuffer.allocate(17).put((byte) 1);
    return bytes
        .putLong(guid.getMostSignificantBits())
        .putLong(guid.getLeastSignificantBits())
        .array();
  }

  @Test
  void whatAHeaderNamesHasNoFrame() throws Exception {
    tell("value", "1=8,7=1000");
    tell("key", "7=2");
    UUID known = new UUID(1, 2);
    tell("value", known + "=" + known);
    byte[] value = framed(0, 1, "data of zeros");
    byte[] key = framed(20, 7, "key");
    Headers headers =
        new RecordHeaders()
            .add("__value_schema_id", framed(0, 7, ""))
            .add("__value_schema_id", guid(known));

    ids.translate(key, 20, value, headers, 0, 0, true);

    assertArrayEquals(framed(0, 1, "data of zeros"), value);
    assertArrayEquals(framed(20, 2, "key"), key); // which its header would name
    assertArrayEquals(guid(known), headers.lastHeader("__value_schema_id").value());
    byte[] first = headers.headers("__value_schema_id").iterator().next().value();
    assertArrayEquals(framed(0, 7, ""), first); // nobody reads it

    headers = new RecordHeaders().add("__value_schema_id", framed(0, 7, "index"));
    ids.translate(null, 0, value, headers, 0, 0, true);
    assertArrayEquals(framed(0, 1, "data of zeros"), value);
    assertArrayEquals(framed(0, 1000, "index"), headers.lastHeader("__value_schema_id").value());

    headers = new RecordHeaders().add("__value_schema_id", null);
    ids.translate(null, 0, value, headers, 0, 0, true);
    assertArrayEquals(framed(0, 8, "data of zeros"), value);

    for (byte[] strange : new byte[][] {{}, {1, 2}, {0, 0, 0, 1}, {2, 0, 0, 0, 1}}) {
      headers = new RecordHeaders().add("__value_schema_id", strange.clone());
      byte[] same = framed(0, 1, "data");
      ids.translate(null, 0, same, headers, 0, 0, false);
      assertArrayEquals(framed(0, 1, "data"), same);
      assertArrayEquals(strange, headers.lastHeader("__value_schema_id").value());
    }
  }

  @Test
  void aGuidWaitsUntilTheDriverHasSpoken() throws Exception {
    UUID guid = new UUID(-1, 7);
    Headers headers = new RecordHeaders().add("__value_schema_id", guid(guid));
    byte[] value = framed(0, 11, "x");
    FutureTask<Void> result =
        new FutureTask<>(
            () -> {
              ids.translate(null, 0, value, headers, 3, 42, false);
              return null;
            });
    translating(value, result);

    assertEquals(
        "schema\t" + flow + "\tA.orders\t3\t42\tvalue\t" + guid + "\ttask\n", awaitReport());
    assertFalse(result.isDone());
    tell("value", guid + "=" + guid);
    result.get(10, TimeUnit.SECONDS);
    assertArrayEquals(framed(0, 11, "x"), value);
    ConsumerRecord<byte[], byte[]> record =
        new ConsumerRecord<>(
            "orders",
            0,
            0,
            0,
            TimestampType.CREATE_TIME,
            0,
            0,
            null,
            value,
            headers,
            Optional.empty());
    assertNull(ids.ask(record), "it is known, and the value has no frame");
    headers.remove("__value_schema_id");
    SchemaIds.Want want = ids.ask(record);
    assertFalse(want.isOver());
    want.end();
  }
}
