package org.apache.kafka.common.utils;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Kafka's clock, ahead by the milliseconds that a file has when the JVM starts. All of a broker
 * goes by it, as by a machine's clock that is set wrong.
 */
public class SystemTime implements Time {
  private static final SystemTime ONLY = new SystemTime();

  private final long aheadMs = aheadMs();

  private SystemTime() {}

  public static SystemTime getSystemTime() {
    return ONLY;
  }

  @Override
  public long milliseconds() {
    return System.currentTimeMillis() + aheadMs;
  }

  @Override
  public long nanoseconds() {
    return System.nanoTime();
  }

  @Override
  public void sleep(long ms) {
    Utils.sleep(ms);
  }

  @Override
  public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs)
      throws InterruptedException {
    synchronized (object) {
      while (!condition.get()) {
        long now = milliseconds();
        if (now >= deadlineMs) {
          throw new TimeoutException("still false at the deadline");
        }
        object.wait(deadlineMs - now);
      }
    }
  }

  private static long aheadMs() {
    try {
      return Long.parseLong(Files.readString(Path.of(System.getProperty("clock.ahead"))).strip());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
