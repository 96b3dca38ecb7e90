package replication.plugin;

import java.util.ArrayDeque;
import java.util.Deque;

/** Lines of reports that wait for a reader; the oldest go where nobody takes them. */
final class KeptLines {
  /** Characters kept for a flow that takes none; then the oldest go. */
  private static final long MOST_CHARACTERS = 64L << 20;

  private final Deque<String> lines = new ArrayDeque<>();
  private long characters;

  boolean isEmpty() {
    return lines.isEmpty();
  }

  void add(String line) {
    lines.add(line);
    characters += line.length();
    while (characters > MOST_CHARACTERS) {
      characters -= lines.remove().length();
    }
  }

  /** All lines, which are kept no longer. */
  String take() {
    String all = String.join("\n", lines);
    lines.clear();
    characters = 0;
    return all;
  }
}
