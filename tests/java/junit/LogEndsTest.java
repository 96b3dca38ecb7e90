package replication.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

/** Where logs end when some of them do not answer. */
final class LogEndsTest {
  private static final Node LEADER = new Node(1, "localhost", 1);
  private static final TopicPartition A = new TopicPartition("a", 0);
  private static final TopicPartition B = new TopicPartition("b", 0);

  private final Cluster cluster = new Cluster();
  private long now;
  private final LogEnds ends = new LogEnds(() -> cluster, 60_000, () -> now);

  /** Answers as Kafka's client does: for all partitions, or for none. */
  private final class Cluster extends MockConsumer<byte[], byte[]> {
    private final Set<TopicPartition> silent = new HashSet<>();
    private final Map<String, List<PartitionInfo>> topics = new HashMap<>();
    private int questions;

    private Cluster() {
      super(OffsetResetStrategy.NONE);
      topics.put("a", List.of(new PartitionInfo("a", 0, LEADER, null, null)));
      topics.put("b", List.of(new PartitionInfo("b", 0, LEADER, null, null)));
    }

    @Override
    public Map<TopicPartition, Long> endOffsets(
        Collection<TopicPartition> partitions, Duration patience) {
      questions++;
      if (partitions.stream().anyMatch(silent::contains)) {
        now += patience.toNanos();
        throw new TimeoutException("no answer");
      }
      Map<TopicPartition, Long> found = new HashMap<>();
      partitions.forEach(tp -> found.put(tp, 7L));
      return found;
    }

    @Override
    public Map<String, List<PartitionInfo>> listTopics(Duration patience) {
      return topics;
    }
  }

  private Map<TopicPartition, Long> ask() {
    return ends.ends(Set.of(A, B));
  }

  @Test
  void aDeletedTopicHoldsUpTheOthersOnce() {
    cluster.topics.remove("b");
    cluster.silent.add(B);

    assertEquals(Map.of(A, 7L), ask());
    cluster.questions = 0;
    assertEquals(Map.of(A, 7L), ask());
    assertEquals(1, cluster.questions, "it is not asked again");
  }

  @Test
  void aPartitionWithoutLeaderIsAskedWhenItHasOne() {
    cluster.topics.put("b", List.of(new PartitionInfo("b", 0, null, null, null)));
    cluster.silent.add(B);
    assertEquals(Map.of(A, 7L), ask());

    cluster.topics.put("b", List.of(new PartitionInfo("b", 0, LEADER, null, null)));
    cluster.silent.clear();
    assertEquals(Map.of(A, 7L), ask(), "not before some seconds have passed");
    now += Duration.ofSeconds(11).toNanos();
    assertEquals(Map.of(A, 7L, B, 7L), ask());
  }

  @Test
  void whoMustKnowAllEndsIsToldWhichAreUnknown() {
    Map<TopicPartition, Long> known = Map.of(A, 7L);

    LogEnds.checkAll(Set.of(A), known);
    Exception error =
        assertThrows(TimeoutException.class, () -> LogEnds.checkAll(Set.of(A, B), known));
    assertEquals(
        "no answer where partitions end, which have no leader or are deleted: [b-0]",
        error.getMessage());
  }

  @Test
  void aBrokerThatDoesNotAnswerIsATimeout() {
    cluster.silent.add(B);

    Exception error = assertThrows(TimeoutException.class, this::ask);
    assertEquals(60, Duration.ofNanos(now).toSeconds(), "how long that took");
    assertTrue(error.getMessage().startsWith("no answer where 2 partitions end, such as "));
  }
}
