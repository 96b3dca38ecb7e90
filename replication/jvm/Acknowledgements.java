package replication;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import replication.plugin.DriverReports;
import replication.plugin.ExecutorReports;

/** Spark's entry point ({@code spark.plugins}): executors report to the driver what was written. */
public final class Acknowledgements implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverReports();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorReports();
  }
}
