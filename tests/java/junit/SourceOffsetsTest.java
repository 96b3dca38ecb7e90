package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Offsets in Spark's JSON. */
final class SourceOffsetsTest {
  @Test
  void offsetsAreInTheOrderOfNumbers() {
    String json = "{\"a\":{\"2\":5,\"10\":6000000000},\"b.c\":{\"0\":0}}";
    SourceOffsets offsets = SourceOffsets.parse(json);

    assertEquals(
        Map.of(
            new TopicPartition("a", 2), 5L,
            new TopicPartition("a", 10), 6_000_000_000L,
            new TopicPartition("b.c", 0), 0L),
        offsets.map());
    assertEquals(json, offsets.json());
    assertEquals(json, SourceOffsets.of(offsets.map()).json());
    assertEquals("{}", SourceOffsets.parse("{}").json());
  }

  @Test
  void whatIsNoOffsetIsNamed() {
    for (String text :
        new String[] {"[", "{\"a\":5}", "{\"a\":{\"x\":5}}", "{\"a\":{\"0\":\"5\"}}"}) {
      Exception error =
          assertThrows(IllegalArgumentException.class, () -> SourceOffsets.parse(text));
      assertEquals("not offsets by topic and partition: " + text, error.getMessage());
    }
  }
}
