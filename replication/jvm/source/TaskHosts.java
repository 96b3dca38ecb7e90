package replication.source;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import scala.jdk.javaapi.CollectionConverters;

/** On which executor a task should run: where its consumer is kept from the batch before. */
final class TaskHosts {
  private static final String[] ANYWHERE = {};

  private final List<String> executors;

  private TaskHosts(List<String> executors) {
    this.executors = executors;
  }

  /** The executors of now; none in local mode, or where Spark does not say. */
  static TaskHosts now() {
    List<String> found = new ArrayList<>();
    try {
      SparkEnv env = SparkEnv.get();
      if (env == null) {
        return new TaskHosts(found);
      }
      BlockManager blocks = env.blockManager();
      for (BlockManagerId peer :
          CollectionConverters.asJava(blocks.master().getPeers(blocks.blockManagerId()))) {
        found.add(
            "executor_" + peer.host() + "_" + peer.executorId()); // as Spark's scheduler reads
      }
    } catch (LinkageError e) { // these classes are Spark's own
      found.clear();
    }
    found.sort(null);
    return new TaskHosts(found);
  }

  String[] of(String stream, int task) {
    if (executors.isEmpty()) {
      return ANYWHERE;
    }
    int at = Math.floorMod(stream.hashCode() + task, executors.size());
    return new String[] {executors.get(at)};
  }
}
