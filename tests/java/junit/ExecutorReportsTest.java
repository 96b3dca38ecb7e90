package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.MetricRegistry;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.resource.ResourceInformation;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import replication.producer.PreserveTimestamps;
import scala.Option;
import scala.collection.immutable.Map$;

/** What an executor reports, and what it makes of the driver's answers or their lack. */
final class ExecutorReportsTest {
  private static final String FLOW = "A->B of this test";
  private static final long SECONDS = 30;

  private final BlockingQueue<String> asked = new LinkedBlockingQueue<>();
  private final BlockingQueue<Thread> asking = new LinkedBlockingQueue<>();
  private final BlockingQueue<Object> answers = new LinkedBlockingQueue<>();
  private final ExecutorReports reports = new ExecutorReports();

  /** The driver: it gives what the test has it answer, one for each report. */
  private final class Driver implements PluginContext {
    @Override
    public Object ask(Object report) throws Exception {
      asked.add((String) report);
      asking.add(Thread.currentThread());
      Object answer = answers.take();
      if (answer instanceof Exception error) {
        throw error;
      }
      if (answer instanceof Error error) {
        throw error;
      }
      return answer;
    }

    @Override
    public void send(Object message) {
      throw new UnsupportedOperationException("nobody answers to that");
    }

    @Override
    public MetricRegistry metricRegistry() {
      return new MetricRegistry();
    }

    @Override
    public SparkConf conf() {
      return new SparkConf(false);
    }

    @Override
    public String executorID() {
      return ExecutorReports.LOCAL; // of any other, this process would end with its lease
    }

    @Override
    public String hostname() {
      return "localhost";
    }

    @Override
    public Map<String, ResourceInformation> resources() {
      return Map.of();
    }
  }

  private void begin(long intervalMs, Object... first) {
    answers.addAll(java.util.List.of(first));
    reports.init(
        new Driver(),
        Map.of(
            ExecutorReports.INTERVAL, "" + intervalMs,
            ExecutorReports.LEASE, "20000",
            ExecutorReports.TOKEN, "secret"));
  }

  private String next() throws InterruptedException {
    String report = asked.poll(SECONDS, TimeUnit.SECONDS);
    assertTrue(report != null, "no report came");
    return report;
  }

  @AfterEach
  void end() {
    TaskContext$.MODULE$.unset();
    reports.shutdown();
    answers.addAll(java.util.Collections.nCopies(1_000, ""));
  }

  private TaskContextImpl start(int attempt, int stageAttempt) {
    Properties properties = new Properties();
    properties.put(PreserveTimestamps.GENERATION, FLOW + "#3");
    TaskContextImpl task =
        new TaskContextImpl(
            0,
            stageAttempt,
            0,
            7,
            attempt,
            1,
            null,
            properties,
            null,
            null,
            1,
            Map$.MODULE$.empty());
    TaskContext$.MODULE$.setTaskContext(task);
    reports.onTaskStart();
    return task;
  }

  @Test
  void theDriverKnowsOfAnExecutorBeforeItsFirstTask() throws InterruptedException {
    begin(3_600_000, "");

    assertEquals(Thread.currentThread(), asking.peek(), "who waits for the answer");
    assertEquals("executor\tdriver\t0\tsecret", next().lines().findFirst().orElse(""));
  }

  @Test
  void aReportWithoutAnAnswerIsSentAgainAsItWas() throws InterruptedException {
    begin(1, new Exception("the driver is busy"));
    String first = next();
    TaskContextImpl task = start(0, 0); // would be in a new report
    answers.add(new Exception("still"));
    assertEquals(first, next());
    answers.add("");
    assertEquals(first, next(), "or what it has taken of the runs would be lost");
    answers.add("");

    String second = next();
    assertTrue(second.startsWith("executor\tdriver\t1\t"), second);
    assertTrue(second.contains("\nbusy\t" + FLOW + "#3\t0\t1\n"), second);
    task.markTaskCompleted(Option.empty());
  }

  @Test
  void aDriverThatWaitsHearsMoreSoon() throws InterruptedException {
    begin(3_600_000, "", DriverReports.HURRY, "");
    next();
    next();

    assertTrue(next().startsWith("executor\tdriver\t2\t"), "not after an hour");
  }

  @Test
  void nothingEndsTheReports() throws InterruptedException {
    begin(1, "", new OutOfMemoryError("for once"), "");
    String first = next();
    String second = next();
    assertEquals(second, next());
    assertFalse(first.equals(second));
  }

  @Test
  void aTaskIsReportedFromItsStartToItsEnd() throws InterruptedException {
    begin(1, "");
    next();
    TaskContextImpl task = start(0, 0);
    answers.add("");
    next(); // may have been made before
    answers.add("");
    assertTrue(next().contains("\nbusy\t" + FLOW + "#3\t0\t1\n"));
    assertDoesNotThrow(() -> task.markTaskCompleted(Option.empty()));
    answers.add("");
    next();
    answers.add("");
    assertFalse(next().contains(FLOW));
  }

  @Test
  void aSecondAttemptOfATaskOrOfItsStageCannotEndWell() {
    begin(3_600_000, "");
    for (int[] attempt : new int[][] {{1, 0}, {0, 1}}) {
      TaskContextImpl task = start(attempt[0], attempt[1]);
      Exception failed =
          assertThrows(RuntimeException.class, () -> task.markTaskCompleted(Option.empty()));
      assertTrue(
          failed.getMessage().contains("a second attempt of a task cannot finish its batch"),
          failed.getMessage());
    }
  }

  @Test
  void aTaskOfAnotherQueryIsNotOurs() {
    begin(3_600_000, "");
    TaskContextImpl other =
        new TaskContextImpl(
            0, 0, 0, 7, 1, 1, null, new Properties(), null, null, 1, Map$.MODULE$.empty());
    TaskContext$.MODULE$.setTaskContext(other);
    reports.onTaskStart();

    assertDoesNotThrow(() -> other.markTaskCompleted(Option.empty()));
  }
}
