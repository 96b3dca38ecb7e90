package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.impl.Log4jLogEvent;
import org.apache.logging.log4j.message.ParameterizedMessage;
import org.junit.jupiter.api.Test;

/** Which lines of a client are logged, and what is said of the others. */
final class LogLimitTest {
  private static final String CLIENT = "[Consumer clientId=c, groupId=g] ";

  private long now = 1;
  private final Lines lines = new Lines();
  private final LogLimit limit = new LogLimit(lines, () -> now);

  private static final class Lines extends AbstractAppender {
    private final List<String> said = new ArrayList<>();

    private Lines() {
      super("lines", null, null, true, Property.EMPTY_ARRAY);
    }

    @Override
    public void append(LogEvent event) {
      String trace = event.getThrown() == null ? "" : " with its trace";
      said.add(event.getMessage().getFormattedMessage() + trace);
    }
  }

  private void log(String format, Throwable thrown, Object... values) {
    LogEvent event =
        Log4jLogEvent.newBuilder()
            .setLoggerName("org.apache.kafka.clients.NetworkClient")
            .setLevel(Level.WARN)
            .setMessage(new ParameterizedMessage(format, values))
            .setThrown(thrown)
            .build();
    if (limit.filter(event) != Filter.Result.DENY) {
      lines.append(event);
    }
  }

  private List<String> taken() {
    List<String> taken = List.copyOf(lines.said);
    lines.said.clear();
    return taken;
  }

  @Test
  void repeatedLinesAreCountedWhateverTheirClientAndValues() {
    for (int i = 0; i < 1000; i++) {
      log("[Consumer clientId=c" + i % 7 + "] Node {} ({}) is away", null, i, "b" + i + ":9092");
      log("Lost task 0.0 of topic-" + i, null);
    }
    assertEquals(4, taken().size());

    now += LogLimit.SOON_NANOS;
    limit.sayDue();

    assertEquals(
        List.of(
            "998 more lines like this in 60 s: [Consumer clientId=c5] Node 999 (b999:9092) is away",
            "998 more lines like this in 60 s: Lost task 0.0 of topic-999"),
        taken());
  }

  @Test
  void anHourOfRepeatedLinesIsAFewLines() {
    for (int second = 0; second < 3600; second++) {
      log(CLIENT + "Node {} is away", null, second);
      limit.sayDue();
      now += 1_000_000_000L;
    }

    assertEquals(2 + 1 + 5, taken().size());
  }

  @Test
  void aLineOfAnotherShapeIsLoggedAtOnce() {
    for (int i = 0; i < 1000; i++) {
      log(CLIENT + "Node {} is away", null, i);
    }
    taken();

    log(CLIENT + "Node {} is back", null, 1);

    assertEquals(List.of(CLIENT + "Node 1 is back"), taken());
  }

  @Test
  void whatWasNotSeenForMinutesIsNewsAgain() {
    for (int i = 0; i < 3; i++) {
      log("Node is away", null);
    }
    taken();
    now += LogLimit.FORGOTTEN_NANOS + 1;

    log("Node is away", null);

    assertEquals(List.of("1 more line like this in 300 s: Node is away", "Node is away"), taken());
  }

  @Test
  void aStackTraceIsLoggedOnce() {
    log("Task failed", new IllegalStateException("why"));
    log("Task failed", new IllegalStateException("why"));

    assertEquals(
        List.of("Task failed with its trace", "Task failed (java.lang.IllegalStateException: why)"),
        taken());
  }

  @Test
  void anErrorOfKafkasHasNoTrace() {
    log("Cannot send", new ExecutionException(new TimeoutException("60 s have passed")));

    String cause = "org.apache.kafka.common.errors.TimeoutException: 60 s have passed";
    String error = "java.util.concurrent.ExecutionException: " + cause;
    assertEquals(List.of("Cannot send (" + error + ", caused by " + cause + ")"), taken());
  }

  @Test
  void anErrorByWhichOursEndsATaskHasNoTrace() {
    log("Exception in task 0.0", new RuntimeException(new EndedByUs("the log was cut")));

    String cause = EndedByUs.class.getName() + ": the log was cut";
    String error = "java.lang.RuntimeException: " + cause;
    assertEquals(
        List.of("Exception in task 0.0 (" + error + ", caused by " + cause + ")"), taken());
  }

  private static final class EndedByUs extends RuntimeException {
    private static final long serialVersionUID = 1;

    private EndedByUs(String text) {
      super(text);
    }
  }

  @Test
  void whatIsSaidWithoutItsTraceHasNoneInItsTextEither() {
    String text =
        "Lost task 1.1: bad\n\tSuppressed: worse\n\t\tat a.B.c(B.java:1)\n\t\t... 9 more\nEnd";

    log("Query ended", new RuntimeException(text, new TimeoutException("late")));

    String thrown = "java.lang.RuntimeException: Lost task 1.1: bad\n\tSuppressed: worse\nEnd";
    String cause = "org.apache.kafka.common.errors.TimeoutException: late";
    assertEquals(List.of("Query ended (" + thrown + ", caused by " + cause + ")"), taken());
  }

  @Test
  void theEndSaysWhatWasCountedAndNothingFollows() {
    for (int i = 0; i < 5; i++) {
      log("Node is away", null);
    }
    taken();

    limit.end();
    log("Something else", null);

    assertEquals(List.of("3 more lines like this in 1 s: Node is away"), taken());
  }

  @Test
  void whatIsCountedIsSaidThoughTheShapesAreMany() {
    for (int i = 0; i < 3; i++) {
      log("Node is away", null);
    }
    for (char a = 'a'; a <= 'z'; a++) {
      for (char b = 'a'; b <= 'z'; b++) {
        log("first " + a + b, null);
        log("second " + a + b, null);
      }
    }

    assertTrue(taken().contains("1 more line like this in 1 s: Node is away"));
  }
}
