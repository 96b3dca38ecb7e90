package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What the tasks of two queries do that read in turn. */
final class RelayTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("t", 2);
  private static final TopicPartition D = new TopicPartition("t", 3);
  private static final ClientSettings CLIENT = // never polled, so that no broker is asked
      ClientSettings.of(
          new CaseInsensitiveStringMap(Map.of("kafka.bootstrap.servers", "127.0.0.1:1")), 1);

  private final String name = UUID.randomUUID().toString();
  private final PartitionTasks tasks = new PartitionTasks(List.of(A, B, C, D), 2);
  private final Relay relay = Relay.begin(name, 0, tasks);

  @AfterEach
  void end() {
    relay.end();
  }

  /** A task's share as a query plans it, whose own offset is {@code from}. */
  private TaskShare share(long from) {
    TaskShare.Range range = new TaskShare.Range(A, from, TaskShare.NO_END, null);
    return new TaskShare(name + "#0", name, List.of(range), new String[0]);
  }

  private CompletableFuture<SharedConsumer> taking(Turns turns, long from) {
    return CompletableFuture.supplyAsync(() -> turns.take(share(from), CLIENT, false));
  }

  private static void await(Turns turns) throws InterruptedException {
    while (!turns.isDue()) {
      Thread.sleep(1);
    }
  }

  @Test
  void theNextTaskGoesOnWhereTheLastOneEndedWhateverItsQuerySays() throws Exception {
    Turns turns = Relay.turns(share(5));
    SharedConsumer first = turns.take(share(5), CLIENT, false);
    assertEquals(5L, first.offsets().map().get(A));
    assertFalse(turns.isDue(), "nobody waits");

    CompletableFuture<SharedConsumer> second = taking(turns, 0);
    await(turns);
    assertFalse(second.isDone(), "a partition has one reader");
    turns.giveBack(true);

    assertSame(first, second.get(60, TimeUnit.SECONDS));
    assertEquals(5L, first.offsets().map().get(A));
    turns.giveBack(true);
    relay.passed(SourceOffsets.of(Map.of(A, 70L)));
    assertEquals(70L, turns.take(share(5), CLIENT, false).offsets().map().get(A));
  }

  @Test
  void theNextTaskKnowsTheLeaderOfTheLastRecordThatWasPassedOn() {
    List<TaskShare.Range> own = List.of(new TaskShare.Range(A, 5, TaskShare.NO_END, 3));
    assertEquals(own, relay.rest(own), "nothing was passed on: it is where its query says");

    relay.passed(SourceOffsets.of(Map.of(A, 70L), Map.of(A, 7)));
    assertEquals(List.of(new TaskShare.Range(A, 70, TaskShare.NO_END, 7)), relay.rest(own));
    relay.passed(SourceOffsets.of(Map.of(A, 80L)));
    assertEquals(
        List.of(new TaskShare.Range(A, 80, TaskShare.NO_END, null)),
        relay.rest(own),
        "an older one is not that of the last record");
  }

  @Test
  void aTurnLastsAsLongAsItShould() throws Exception {
    String other = UUID.randomUUID().toString();
    Relay slow = Relay.begin(other, TimeUnit.HOURS.toMillis(1), tasks);
    TaskShare share = new TaskShare(other + "#0", other, List.of(), new String[0]);
    Turns turns = Relay.turns(share);
    turns.take(share, CLIENT, false);
    CompletableFuture<SharedConsumer> second =
        CompletableFuture.supplyAsync(() -> turns.take(share, CLIENT, false));

    assertFalse(turns.isDue());
    turns.giveBack(true);
    second.get(60, TimeUnit.SECONDS);
    slow.end();
  }

  @Test
  void nobodyGoesOnAfterATaskThatFailed() throws Exception {
    Turns turns = Relay.turns(share(5));
    turns.take(share(5), CLIENT, false);
    CompletableFuture<SharedConsumer> second = taking(turns, 0);
    await(turns);

    turns.giveBack(false);
    relay.end();

    assertFalse(second.isDone(), "it waits until its query is stopped");
    assertThrows(IllegalStateException.class, () -> turns.take(share(5), CLIENT, true));
    CompletableFuture<SharedConsumer> late = taking(Relay.turns(share(0)), 0);
    assertThrows(IllegalStateException.class, () -> Relay.of(name));
    assertFalse(late.isDone());
  }

  @Test
  void aPartitionNeverHasTwoReaders() {
    Relay.turns(share(5)).take(share(5), CLIENT, false);
    TaskShare wrong = new TaskShare(name + "#1", name, share(5).ranges(), new String[0]);

    assertThrows(IllegalStateException.class, () -> Relay.turns(wrong).take(wrong, CLIENT, false));
  }

  @Test
  void partitionsMoveToAnotherTaskWhenNoBatchRuns() throws Exception {
    Object one = new Object();
    Object other = new Object();
    relay.plan(other, Map.of());
    Map<TopicPartition, Long> next = new HashMap<>();
    for (int batch = 0; batch < 8; batch++) { // the tenth batch is the first that may move
      busy(next);
      relay.plan(one, Map.of());
      relay.ended(one);
    }
    busy(next);
    Turns turns = Relay.turns(share(0));
    SharedConsumer idle = turns.take(share(0), CLIENT, false);

    CompletableFuture<Void> moving = CompletableFuture.runAsync(() -> relay.plan(one, Map.of()));
    await(turns); // though no task waits for it
    assertNull(idle.next(TimeUnit.HOURS.toMillis(1)), "its wait for records ends");
    assertTrue(turns.isHurried(), "a task with many records looks at nothing else for each");
    assertFalse(moving.isDone());
    assertEquals(List.of(0, 0), List.of(tasks.of(A), tasks.of(C)));
    relay.ended(other);
    moving.get(60, TimeUnit.SECONDS);

    assertEquals(1, tasks.of(A) + tasks.of(C), "one of the busy ones has moved");
    assertFalse(turns.isDue());
    turns.giveBack(true);
  }

  private void busy(Map<TopicPartition, Long> next) {
    next.merge(A, 50_000L, Long::sum);
    next.merge(C, 50_000L, Long::sum);
    relay.passed(SourceOffsets.of(next));
  }

  @Test
  void aQueryPlansItsNextBatchWhenATaskOfTheOtherOneHasFailed() throws Exception {
    Turns turns = Relay.turns(share(5));
    turns.take(share(5), CLIENT, false);
    turns.giveBack(false); // its consumer is closed, and nobody goes on

    turns.wakeUp();
    assertThrows(TimeoutException.class, () -> taking(turns, 5).get(100, TimeUnit.MILLISECONDS));
  }
}
