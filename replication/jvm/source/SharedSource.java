package replication.source;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
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
 * <p>Spark's own source has a task and a consumer for each partition. This one takes the options
 * that the mirror passes to it ({@code kafka.*}, {@code startingOffsets}, {@code
 * maxOffsetsPerTrigger}), and {@link #TASKS}; its rows have the same columns.
 */
public final class SharedSource implements TableProvider {
  /** Option: how many tasks share the partitions. */
  static final String TASKS = "tasks";

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
      return "shared Kafka source";
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
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new Reading(options);
    }
  }

  private record Reading(CaseInsensitiveStringMap options) implements Scan {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public String description() {
      return "shared Kafka source"; // not its options, which have passwords
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new SharedStream(options);
    }
  }
}
