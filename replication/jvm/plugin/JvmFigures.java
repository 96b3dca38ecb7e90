package replication.plugin;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;

/**
 * What this JVM uses of its machine, and whose child it is; Python may not call Java's beans, which
 * are not exported.
 */
public final class JvmFigures {
  private JvmFigures() {}

  /** The id of the parent process; 0 where nobody can tell, as in another namespace. */
  public static long parent() {
    return ProcessHandle.current().parent().map(ProcessHandle::pid).orElse(0L);
  }

  /** Bytes of the heap that are used and that may be, collection in ms and CPU time in ns. */
  public static String figures() {
    MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
    long collected = 0;
    for (GarbageCollectorMXBean each : ManagementFactory.getGarbageCollectorMXBeans()) {
      collected += Math.max(0, each.getCollectionTime());
    }
    long cpu = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
    return heap.getUsed() + "\t" + heap.getMax() + "\t" + collected + "\t" + cpu;
  }
}
