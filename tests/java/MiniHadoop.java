import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS and YARN in one JVM on the loopback address: {@code MiniHadoop FOLDER MEGABYTES}.
 * FOLDER/conf is HADOOP_CONF_DIR once FOLDER/ready exists. It ends when its standard input ends.
 */
public final class MiniHadoop {
  private static final String HOST = "127.0.0.1";

  public static void main(String[] args) {
    try {
      run(Path.of(args[0]).toAbsolutePath(), args[1]);
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1);
    }
  }

  private static void run(Path folder, String megabytes) throws Exception {
    Configuration hdfs = new Configuration();
    hdfs.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.resolve("dfs").toString());
    hdfs.set("dfs.replication", "1");
    hdfs.set("dfs.permissions.enabled", "false");
    MiniDFSCluster dfs = new MiniDFSCluster.Builder(hdfs).numDataNodes(1).format(true).build();
    dfs.waitActive();

    System.setProperty(
        "test.build.data", folder.resolve("yarn").toString()); // where its folders are
    YarnConfiguration yarn = new YarnConfiguration();
    yarn.set("fs.defaultFS", dfs.getFileSystem().getUri().toString());
    yarn.set("dfs.replication", "1");
    yarn.setBoolean("yarn.minicluster.fixed.ports", false);
    yarn.setBoolean("yarn.minicluster.control-resource-monitoring", false);
    yarn.set("yarn.minicluster.yarn.nodemanager.resource.memory-mb", megabytes);
    yarn.set("yarn.nodemanager.resource.memory-mb", megabytes);
    yarn.set("yarn.nodemanager.resource.cpu-vcores", "16");
    yarn.set("yarn.nodemanager.vmem-check-enabled", "false");
    yarn.set("yarn.nodemanager.pmem-check-enabled", "false");
    yarn.set("yarn.nodemanager.delete.debug-delay-sec", "3600"); // the tests read the logs
    yarn.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99");
    yarn.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH");
    yarn.set("yarn.scheduler.minimum-allocation-mb", "128");
    yarn.set("yarn.scheduler.maximum-allocation-mb", megabytes);
    yarn.set("yarn.resourcemanager.am.max-attempts", "2");
    yarn.set("yarn.scheduler.capacity.root.queues", "default");
    yarn.set("yarn.scheduler.capacity.root.default.capacity", "100");
    yarn.set("yarn.scheduler.capacity.root.default.maximum-capacity", "100");
    yarn.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    yarn.set("yarn.resourcemanager.hostname", HOST);
    yarn.set("yarn.nodemanager.hostname", HOST);
    MiniYARNCluster cluster = new MiniYARNCluster("mini", 1, 1, 1, 1);
    cluster.init(yarn);
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("no node manager has registered");
    }

    Path conf = Files.createDirectories(folder.resolve("conf"));
    write(cluster.getConfig(), conf.resolve("core-site.xml"), "fs.defaultFS");
    write(hdfs, conf.resolve("hdfs-site.xml"), "dfs.replication");
    write(
        cluster.getConfig(),
        conf.resolve("yarn-site.xml"),
        "yarn.resourcemanager.hostname",
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.scheduler.address",
        "yarn.resourcemanager.admin.address",
        "yarn.resourcemanager.resource-tracker.address",
        "yarn.resourcemanager.webapp.address",
        "yarn.scheduler.maximum-allocation-mb",
        "yarn.scheduler.minimum-allocation-mb");
    Files.createFile(folder.resolve("ready"));
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  private static void write(Configuration conf, Path file, String... keys) throws IOException {
    Configuration some = new Configuration(false);
    for (String key : keys) {
      if (conf.get(key) != null) some.set(key, conf.get(key));
    }
    try (OutputStream out = Files.newOutputStream(file)) {
      some.writeXml(out);
    }
  }
}
