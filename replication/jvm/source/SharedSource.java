package replication.source;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A source of Kafka records whose tasks each read many partitions through one consumer.
 *
 * <p>Spark's own source has a task and a consumer for each partition: a thread, connections and
 * fetches of its own. This one takes the same options as far as the replication has use for them:
 * {@code kafka.*}, {@code startingOffsets} (which names each partition), {@code endingOffsets},
 * {@code maxOffsetsPerTrigger}; and {@code tasks}, how many share the partitions, and {@code relay}
 * for a query that takes turns with another one. Its rows have the same columns. Records that are
 * gone always fail a read.
 */
public final class SharedSource implements TableProvider {
  static final String STARTS = "startingOffsets";

  /** In the same form, the epochs of the leaders that had the records before, where known. */
  static final String EPOCHS = "startingEpochs";

  static final String ENDS = "endingOffsets";
  static final String LATEST = "latest";

  /** The {@link Relay} of queries that take turns; which of them begins it, and for how long. */
  static final String RELAY = "relay";

  static final String RELAY_BEGINS = "relayBegins";
  static final String TURN_MS = "turnMs";

  private static final String NAME = "shared Kafka source";

  private static final StructType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);

  private static final StructType SCHEMA =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("timestamp", DataTypes.TimestampType)
          .add("timestampType", DataTypes.IntegerType)
          .add("headers", DataTypes.createArrayType(HEADER));

  /** How many tasks read this many partitions. */
  static int tasks(CaseInsensitiveStringMap options, int partitions) {
    return Math.max(1, Math.min(options.getInt("tasks", 1), partitions));
  }

  /** What is to be read of the partitions that have {@code ends}. */
  static List<TaskShare.Range> ranges(
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> ends,
      Map<TopicPartition, Integer> epochs) {
    List<TaskShare.Range> ranges = new ArrayList<>();
    starts.forEach(
        (tp, start) -> {
          long end = ends.get(tp);
          if (end < start) {
            throw new DataLoss(tp + " ends at " + end + ", before offset " + start);
          }
          if (end > start) {
            ranges.add(new TaskShare.Range(tp, start, end, epochs.get(tp)));
          }
        });
    return ranges;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] by, Map<String, String> properties) {
    return new Records();
  }

  private static final class Records implements SupportsRead {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public Column[] columns() {
      StructField[] fields = SCHEMA.fields();
      Column[] columns = new Column[fields.length];
      for (int i = 0; i < fields.length; i++) {
        columns[i] = Column.create(fields[i].name(), fields[i].dataType());
      }
      return columns;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new Read(options);
    }
  }

  /** No record, whose text would have the options' passwords. */
  private static final class Read implements Scan {
    private final CaseInsensitiveStringMap options;

    private Read(CaseInsensitiveStringMap options) {
      this.options = options;
    }

    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public String description() {
      return NAME;
    }

    @Override
    public Batch toBatch() {
      return new SharedBatch(options);
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new SharedStream(options);
    }
  }
}
