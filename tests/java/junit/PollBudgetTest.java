package replication.source;

import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.kafka.common.ClusterResource;
import org.junit.jupiter.api.Test;

/** What a poll takes, and of which cluster. */
class PollBudgetTest {
  private static final byte[] VALUE = {1};

  @Test
  void nothingIsTakenOfAnotherCluster() {
    PollBudget budget = new PollBudget(100, "a");
    budget.onUpdate(new ClusterResource(null)); // before the first answer
    budget.onUpdate(new ClusterResource("a"));
    budget.begin();
    budget.deserialize("t", VALUE);
    budget.onUpdate(new ClusterResource("b"));
    assertThrows(PollBudget.Elsewhere.class, () -> budget.deserialize("t", VALUE));
    budget.onUpdate(new ClusterResource("a")); // what it has fetched is of either
    assertThrows(PollBudget.Elsewhere.class, budget::begin);
  }
}
