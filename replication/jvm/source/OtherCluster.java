package replication.source;

import java.io.Serial;
import org.apache.kafka.common.KafkaException;

/** A client has moved to an address that leads to another cluster than the one it began with. */
public final class OtherCluster extends KafkaException {
  @Serial private static final long serialVersionUID = 1L;

  OtherCluster(String text) {
    super(text);
  }
}
