package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** What waits for a reader that may never come. */
final class KeptLinesTest {
  private final KeptLines lines = new KeptLines();

  @Test
  void linesAreTakenOnceAndInTheirOrder() {
    assertTrue(lines.isEmpty());
    lines.add("first");
    lines.add("second");

    assertFalse(lines.isEmpty());
    assertEquals("first\nsecond", lines.take(1));
    assertTrue(lines.isEmpty());
    assertEquals("", lines.take(2));
  }

  @Test
  void aCallThatIsMadeOnceMoreHasTheSameAnswer() {
    lines.add("first");
    assertEquals("first", lines.take(7));
    lines.add("second");

    assertEquals("first", lines.take(7));
    assertEquals("second", lines.take(8));
  }

  @Test
  void theOldestGoWhereNobodyTakesThemAndOnlyThose() {
    String third = "x".repeat((64 << 20) / 3);
    lines.add("oldest" + third);
    lines.add("older" + third);
    lines.add("new" + third);
    lines.add("newest");

    String taken = lines.take(1);
    assertTrue(taken.startsWith("older"));
    assertTrue(taken.endsWith("\nnewest"));
  }

  @Test
  void whatWasTakenCountsNoLonger() {
    String half = "x".repeat(33 << 20);
    for (int turn = 0; turn < 3; turn++) {
      lines.add(half);
      lines.add("end");
      assertEquals(half.length() + 4, lines.take(turn + 1).length());
    }
  }
}
