package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** How long the records of a flow take. */
final class FlowFiguresTest {
  @Test
  void aFlowAddsUpWhatItsPartitionsReport() {
    FlowFigures figures = new FlowFigures();
    figures.add("A.t\t0\t2000,1:1\t100,0:1");
    figures.add("A.t\t1\t2000,1:1\t300,0:2");
    figures.add("A.u\t0\t0\t50,0:1");

    String all = figures.appendTo(new StringBuilder()).toString();
    assertEquals("transfer\t450,0:4\nlatency\tA.t\t4000,1:2\nlatency\tA.u\t0\n", all);
    assertEquals("transfer\t450,0:4\n", figures.appendTo(new StringBuilder()).toString());
  }
}
