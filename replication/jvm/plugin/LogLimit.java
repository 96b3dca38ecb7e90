package replication.plugin;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Appender;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.logging.log4j.core.filter.AbstractFilterable;
import org.apache.logging.log4j.core.impl.Log4jLogEvent;
import org.apache.logging.log4j.message.SimpleMessage;

/**
 * Limits the lines that clients and Spark repeat: a client says thousands of times a second that a
 * topic is gone, and ten times a second that a broker is.
 *
 * <p>Lines of one logger that differ in values and clients only have one shape. The first ones of a
 * shape are logged. What follows is counted, and is one line after a minute and then every ten
 * minutes, until the shape has not been seen for five minutes. A stack trace is logged once for
 * each shape; an error of Kafka's is about a cluster and not about code, so it has none, and
 * neither has one of ours: a task ends by it as it should.
 */
public final class LogLimit extends AbstractFilter {
  static final int FIRST_LINES = 2;
  static final long SOON_NANOS = TimeUnit.MINUTES.toNanos(1);
  static final long LATER_NANOS = TimeUnit.MINUTES.toNanos(10);
  static final long FORGOTTEN_NANOS = TimeUnit.MINUTES.toNanos(5);

  private static final long TICK_MS = 5_000;
  private static final int MOST_SHAPES = 1000;
  private static final int LONGEST_SHAPE = 300;
  private static final Pattern CLIENT = Pattern.compile("^(\\[[^\\]]*\\]:?\\s*)+");

  /** A line of a trace. Spark's errors have those of an executor in their own text. */
  private static final Pattern FRAME =
      Pattern.compile("\\R\\s+(at \\S+\\(.*|\\.\\.\\. \\d+ more)(?=\\R|$)");

  private static final String ERRORS_OF_KAFKA = "org.apache.kafka.common.errors.";
  private static final String OURS = "replication.";

  private static final List<LogLimit> INSTALLED = new ArrayList<>(); // guarded by the class

  private final Appender appender;
  private final LongSupplier clock;
  private final Map<String, Shape> shapes = new LinkedHashMap<>(16, 0.75f, true); // guarded by this
  private boolean hasEnded;

  private static final class Shape {
    private int said;
    private boolean hasTrace;
    private long seenAt;
    private long hidden;
    private long hiddenSince;
    private long pauseNanos = SOON_NANOS;
    private LogEvent latest;
  }

  LogLimit(Appender appender, LongSupplier clock) {
    this.appender = appender;
    this.clock = clock;
  }

  /** Limits what this process logs from now on; a second call does nothing. */
  public static synchronized void install() {
    if (!INSTALLED.isEmpty() || !(LogManager.getContext(false) instanceof LoggerContext context)) {
      return;
    }
    for (Appender appender : context.getConfiguration().getAppenders().values()) {
      if (appender instanceof AbstractFilterable filtered) {
        LogLimit limit = new LogLimit(appender, System::nanoTime);
        limit.start();
        filtered.addFilter(limit);
        INSTALLED.add(limit);
      }
    }
    Thread thread = new Thread(LogLimit::tick, "replication-log");
    thread.setDaemon(true);
    thread.start();
  }

  /**
   * Ends the log of this process: says what was counted, and nothing more. Clients that are closed
   * while their cluster is away would hide the cause, which is the last line.
   */
  public static synchronized void endAll() {
    INSTALLED.forEach(LogLimit::end);
  }

  @SuppressWarnings("BusyWait")
  private static void tick() {
    while (true) {
      try {
        Thread.sleep(TICK_MS);
        List<LogLimit> limits;
        synchronized (LogLimit.class) {
          limits = List.copyOf(INSTALLED);
        }
        limits.forEach(LogLimit::sayDue);
      } catch (Throwable e) { // such as a lack of memory: the thread goes on
        Thread.interrupted();
      }
    }
  }

  @Override
  public Result filter(LogEvent event) {
    return isWanted(event) ? Result.NEUTRAL : Result.DENY;
  }

  private synchronized boolean isWanted(LogEvent event) {
    if (hasEnded) {
      return false;
    }
    long now = clock.getAsLong();
    Shape shape = shapes.computeIfAbsent(shapeOf(event), key -> new Shape());
    if (shape.said > 0 && now - shape.seenAt > FORGOTTEN_NANOS) {
      sayHidden(shape, now);
      shape.said = 0;
      shape.pauseNanos = SOON_NANOS;
    }
    shape.seenAt = now;
    if (shape.said >= FIRST_LINES) {
      hide(shape, event, now);
      return false;
    }
    shape.said++;
    forgetOldest(now);
    Throwable thrown = event.getThrown();
    if (thrown == null) {
      return true;
    }
    String kind = rootOf(thrown).getClass().getName();
    boolean isExplained = kind.startsWith(ERRORS_OF_KAFKA) || kind.startsWith(OURS);
    boolean isNew = !shape.hasTrace && !isExplained;
    shape.hasTrace = true;
    if (!isNew) {
      say(event, textOf(event));
    }
    return isNew;
  }

  private static void hide(Shape shape, LogEvent event, long now) {
    if (shape.hidden++ == 0) {
      shape.hiddenSince = now;
    }
    shape.latest = event.toImmutable();
  }

  private void forgetOldest(long now) {
    if (shapes.size() > MOST_SHAPES) {
      sayHidden(shapes.remove(shapes.keySet().iterator().next()), now);
    }
  }

  synchronized void sayDue() {
    long now = clock.getAsLong();
    for (Shape shape : shapes.values()) {
      if (shape.hidden > 0 && now - shape.hiddenSince >= shape.pauseNanos) {
        sayHidden(shape, now);
        shape.pauseNanos = LATER_NANOS;
      }
    }
  }

  synchronized void end() {
    long now = clock.getAsLong();
    shapes.values().forEach(shape -> sayHidden(shape, now));
    hasEnded = true;
  }

  private void sayHidden(Shape shape, long now) {
    if (shape.hidden > 0) {
      long seconds = Math.max(1, TimeUnit.NANOSECONDS.toSeconds(now - shape.hiddenSince));
      String lines = shape.hidden == 1 ? " more line" : " more lines";
      String text = shape.hidden + lines + " like this in " + seconds + " s: ";
      say(shape.latest, text + textOf(shape.latest));
      shape.hidden = 0;
      shape.latest = null;
    }
  }

  private void say(LogEvent event, String text) {
    appender.append(
        Log4jLogEvent.newBuilder()
            .setLoggerName(event.getLoggerName())
            .setLevel(event.getLevel())
            .setThreadName(event.getThreadName())
            .setTimeMillis(System.currentTimeMillis())
            .setMessage(new SimpleMessage(text))
            .build());
  }

  private static String textOf(LogEvent event) {
    String text = event.getMessage().getFormattedMessage();
    Throwable thrown = event.getThrown();
    if (thrown == null) {
      return text;
    }
    Throwable root = rootOf(thrown);
    String why = thrown + (root == thrown ? "" : ", caused by " + root);
    return text + " (" + FRAME.matcher(why).replaceAll("") + ")";
  }

  private static Throwable rootOf(Throwable thrown) {
    Throwable root = thrown;
    for (int depth = 0; root.getCause() != null && depth < 20; depth++) {
      root = root.getCause();
    }
    return root;
  }

  /** What stays the same from line to line: the text without the client and without values. */
  @SuppressWarnings("deprecation") // nothing else has the text before its values were filled in
  private static String shapeOf(LogEvent event) {
    String format = event.getMessage().getFormat();
    String text = format == null ? event.getMessage().getFormattedMessage() : format;
    text = CLIENT.matcher(text).replaceFirst("");
    StringBuilder shape = new StringBuilder(event.getLoggerName()).append(' ');
    StringBuilder word = new StringBuilder();
    boolean hasDigit = false;
    for (int i = 0; i <= Math.min(text.length(), LONGEST_SHAPE); i++) {
      char letter = i < text.length() ? text.charAt(i) : ' ';
      if (Character.isLetterOrDigit(letter) || "._:/@-$".indexOf(letter) >= 0) {
        word.append(letter);
        hasDigit |= Character.isDigit(letter);
      } else {
        shape.append(hasDigit ? "#" : word).append(letter);
        word.setLength(0);
        hasDigit = false;
      }
    }
    return shape.toString();
  }
}
