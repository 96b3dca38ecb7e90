package replication.calls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** What becomes of records is told once, and a call that py4j makes again is told the same. */
final class RecordWriterTest {
  @Test
  void aCallThatIsMadeOnceMoreHasTheSameAnswer() throws InterruptedException {
    RecordWriter writer =
        new RecordWriter(Map.of("bootstrap.servers", "127.0.0.1:1", "max.block.ms", "50"));
    writer.send(5, "topic", 0, new byte[0], null);
    String told = writer.finished(1, 30_000);

    assertTrue(told.contains("\"number\":5"), told);
    assertEquals(told, writer.finished(1, 0));
    assertEquals("[]", writer.finished(2, 0));
  }
}
