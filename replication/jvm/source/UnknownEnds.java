package replication.source;

import java.io.Serial;
import org.apache.kafka.common.errors.TimeoutException;

/** No broker says where partitions end. */
public final class UnknownEnds extends TimeoutException {
  @Serial private static final long serialVersionUID = 1L;

  UnknownEnds(String text) {
    super(text);
  }
}
