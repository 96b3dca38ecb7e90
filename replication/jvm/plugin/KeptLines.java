package replication.plugin;

import java.util.ArrayDeque;
import java.util.Deque;

/** Lines of reports that wait for a reader; the oldest go where nobody takes them. */
final class KeptLines {
  /** Characters kept for a flow that takes none; then the oldest go. */
  private static final long MOST_CHARACTERS = 64L << 20;

  private final Deque<String> lines = new ArrayDeque<>();
  private long characters;
  private long last; // number of a call
  private String answer = "";

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

  /**
   * All lines, which are kept until the next call. One of the same number is the same call: py4j
   * makes it once more where an answer is lost.
   */
  String take(long call) {
    if (call != last) {
      answer = String.join("\n", lines);
      lines.clear();
      characters = 0;
      last = call; // at the end: what fails for want of memory has taken nothing
    }
    return answer;
  }
}
