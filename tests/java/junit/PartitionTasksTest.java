package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Which task reads which partition. */
final class PartitionTasksTest {
  private final Map<TopicPartition, Long> starts = new HashMap<>();
  private final PartitionTasks tasks = new PartitionTasks(partitions(8), 2);

  private static TopicPartition partition(int number) {
    return new TopicPartition("t", number);
  }

  private static List<TopicPartition> partitions(int count) {
    List<TopicPartition> partitions = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      partitions.add(partition(number));
    }
    return partitions;
  }

  /** Begins batches, between which partitions with these numbers get some records. */
  private void batches(int count, long records, int... busy) {
    for (int batch = 0; batch < count; batch++) {
      for (int number = 0; number < 8; number++) {
        starts.merge(partition(number), 0L, Long::sum);
      }
      for (int number : busy) {
        starts.merge(partition(number), records, Long::sum);
      }
      tasks.begin(starts);
    }
  }

  private List<Integer> ofTasks() {
    return partitions(8).stream().map(tasks::of).toList();
  }

  @Test
  void partitionsAreDealtOutInTheirOrder() {
    assertEquals(List.of(0, 1, 0, 1, 0, 1, 0, 1), ofTasks());
  }

  @Test
  void oneOfTwoBusyPartitionsMovesToTheIdleTask() {
    batches(9, 50_000, 0, 2);
    assertEquals(List.of(0, 1, 0, 1, 0, 1, 0, 1), ofTasks(), "too early");

    batches(1, 50_000, 0, 2);
    assertNotEquals(tasks.of(partition(0)), tasks.of(partition(2)));
    assertEquals(List.of(1, 0, 1, 0, 1), ofTasks().subList(3, 8), "the others stay");
  }

  @Test
  void oneBusyPartitionStays() {
    batches(30, 50_000, 0);
    assertEquals(List.of(0, 1, 0, 1, 0, 1, 0, 1), ofTasks());
  }

  @Test
  void equalLoadsAndAFewRecordsMoveNothing() {
    batches(30, 50_000, 0, 1, 2, 3, 4, 5, 6, 7);
    batches(30, 3, 0, 2, 4, 6);
    assertEquals(List.of(0, 1, 0, 1, 0, 1, 0, 1), ofTasks());
  }

  @Test
  void aPartitionDoesNotMoveAgainForTenBatches() {
    batches(10, 50_000, 0, 2);
    List<Integer> moved = ofTasks();
    int of = tasks.of(partition(0));
    int[] busy =
        partitions(8).stream()
            .filter(tp -> tasks.of(tp) == of)
            .mapToInt(TopicPartition::partition)
            .toArray();
    batches(9, 500_000, busy);
    assertEquals(moved, ofTasks());

    batches(1, 500_000, busy);
    assertNotEquals(moved, ofTasks());
  }
}
