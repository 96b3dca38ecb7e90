package replication.producer;

import java.io.Serial;

/** Spark runs a task again, which may repeat what its first attempt wrote. */
public final class SecondAttempt extends IllegalStateException {
  @Serial private static final long serialVersionUID = 1L;

  public SecondAttempt(String what) {
    super("a second attempt of a task " + what);
  }
}
