package replication.source;

import java.io.Serial;

/**
 * The source no longer has what is to be read next. Its text begins as Spark's own source has it.
 */
public final class DataLoss extends IllegalStateException {
  @Serial private static final long serialVersionUID = 1L;

  DataLoss(String text) {
    super("KAFKA_DATA_LOSS: " + text);
  }

  DataLoss(Throwable cause) {
    super("KAFKA_DATA_LOSS: " + cause.getMessage(), cause);
  }
}
