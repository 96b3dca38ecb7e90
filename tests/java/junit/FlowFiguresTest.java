package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** How long the records of a flow take. */
final class FlowFiguresTest {
  @Test
  void aFlowAddsUpWhatItsPartitionsReport() {
    FlowFigures figures = new FlowFigures();
    figures.add("A.t\t0\t2000,2000,1:1\t100,100,0:1");
    figures.add("A.t\t1\t2000,2000,1:1\t300,200,0:2");
    figures.add("A.u\t0\t0,0\t50,50,0:1");

    String all = figures.appendTo(new StringBuilder()).toString();
    assertEquals("transfer\t450,200,0:4\nlatency\tA.t\t4000,2000,1:2\nlatency\tA.u\t0,0\n", all);
    figures.add("A.t\t0\t1001,1001,1:1\t90,90,0:1");
    assertEquals(
        "transfer\t540,90,0:5\nlatency\tA.t\t5001,1001,1:3\n",
        figures.appendTo(new StringBuilder()).toString(),
        "the longest since the last call");
  }
}
