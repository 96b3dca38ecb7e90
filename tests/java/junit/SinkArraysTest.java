package replication.producer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.kafka010.KafkaRowWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/**
 * What Spark's sink gives to a producer is an array of its own, whatever the rows are: those of
 * Spark's source, and those of the shared one, which hold the arrays of Kafka's records. So ids may
 * be replaced in it while the source still has its records.
 */
final class SinkArraysTest {
  private static final StructType SCHEMA =
      new StructType()
          .add("topic", DataTypes.StringType)
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType);
  private static final List<ProducerRecord<byte[], byte[]>> SENT = new ArrayList<>();

  /** Keeps what a producer is given, before it does anything with it. */
  public static final class Keeping implements ProducerInterceptor<byte[], byte[]> {
    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
      SENT.add(record);
      return record;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}
  }

  private static final class Writer extends KafkaRowWriter {
    private Writer(List<Attribute> columns) {
      super(
          scala.jdk.javaapi.CollectionConverters.asScala(columns).toSeq(),
          scala.Option.<String>empty());
    }

    private void write(InternalRow row, KafkaProducer<byte[], byte[]> producer) {
      sendRow(row, producer);
    }
  }

  private static List<Attribute> columns() {
    List<Attribute> found = new ArrayList<>();
    scala.collection.Iterator<AttributeReference> each =
        org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(SCHEMA).iterator();
    while (each.hasNext()) {
      found.add(each.next());
    }
    return found;
  }

  private static ProducerRecord<byte[], byte[]> sent(InternalRow row) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", "127.0.0.1:9");
    settings.put("max.block.ms", 0);
    settings.put("interceptor.classes", Keeping.class.getName());
    SENT.clear();
    ByteArraySerializer bytes = new ByteArraySerializer();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
      new Writer(columns()).write(row, producer);
    }
    assertEquals(1, SENT.size());
    return SENT.get(0);
  }

  private static void isItsOwn(InternalRow row, byte[] key, byte[] value) {
    ProducerRecord<byte[], byte[]> record = sent(row);
    assertArrayEquals(new byte[] {1, 2}, record.key());
    assertNotSame(key, record.key());
    assertNotSame(value, record.value());
    record.value()[0] = 9;
    record.key()[0] = 9;
    assertArrayEquals(new byte[] {3, 4}, value);
    assertArrayEquals(new byte[] {3, 4}, row.getBinary(2));
    assertArrayEquals(new byte[] {1, 2}, row.getBinary(1));
  }

  @Test
  void ofARowThatHoldsTheArraysOfARecord() {
    byte[] key = {1, 2};
    byte[] value = {3, 4};
    Object[] fields = {UTF8String.fromString("t"), key, value};
    isItsOwn(new GenericInternalRow(fields), key, value);
  }

  @Test
  void ofARowOfBytes() {
    byte[] key = {1, 2};
    byte[] value = {3, 4};
    Object[] fields = {UTF8String.fromString("t"), key, value};
    DataType[] types = {DataTypes.StringType, DataTypes.BinaryType, DataTypes.BinaryType};
    InternalRow row = UnsafeProjection.create(types).apply(new GenericInternalRow(fields));
    isItsOwn(row, key, value);
  }
}
