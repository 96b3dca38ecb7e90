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
    assertEquals("first\nsecond", lines.take());
    assertTrue(lines.isEmpty());
    assertEquals("", lines.take());
  }

  @Test
  void theOldestGoWhereNobodyTakesThemAndOnlyThose() {
    String third = "x".repeat((64 << 20) / 3);
    lines.add("oldest" + third);
    lines.add("older" + third);
    lines.add("new" + third);
    lines.add("newest");

    String taken = lines.take();
    assertTrue(taken.startsWith("older"));
    assertTrue(taken.endsWith("\nnewest"));
  }

  @Test
  void whatWasTakenCountsNoLonger() {
    String half = "x".repeat(33 << 20);
    for (int turn = 0; turn < 3; turn++) {
      lines.add(half);
      lines.add("end");
      assertEquals(half.length() + 4, lines.take().length());
    }
  }
}
