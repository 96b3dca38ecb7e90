package replication.source;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import replication.producer.SecondAttempt;

/** The consumer of a share, which the tasks of two queries have one after the other. */
final class Turns {
  private final Relay relay;
  private SharedConsumer consumer; // nobody's, unless it is taken
  private boolean isTaken;
  private int waiting;
  private volatile boolean isAwaited;
  private long takenAt; // for the task that has it

  Turns(Relay relay) {
    this.relay = relay;
  }

  /**
   * The consumer where the task before left it, once that has ended well. If it never does, or the
   * relay is over, the query of the caller is stopped soon, and this thread is interrupted.
   *
   * @param isSecond whether Spark runs the task again, which would wait for its own first attempt
   */
  synchronized SharedConsumer take(TaskShare share, ClientSettings settings, boolean isSecond) {
    if (isSecond) {
      throw new SecondAttempt("has no turn");
    }
    await();
    isTaken = true;
    takenAt = System.nanoTime();
    try {
      relay.claim(share.ranges());
      if (consumer == null) {
        consumer = new SharedConsumer(settings);
      }
      consumer.begin(relay.rest(share.ranges()));
      return consumer;
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  private void await() {
    waiting++;
    isAwaited = true;
    try {
      while (isTaken || relay.isOver()) {
        wait();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException("while another task reads"));
    } finally {
      isAwaited = --waiting > 0;
    }
  }

  /** Whether all tasks should end now. */
  boolean isHurried() {
    return relay.isHurried();
  }

  /** Lets a task that waits for records look whether it should end. */
  synchronized void wakeUp() {
    if (isTaken && consumer != null) { // none after a failed task, whose turn is nobody's any more
      consumer.wakeUp();
    }
  }

  /** Whether the task that has the consumer should end, since the next one is ready. */
  boolean isDue() {
    return relay.isHurried() || (isAwaited && relay.isLongEnough(System.nanoTime() - takenAt));
  }

  /**
   * Ends a turn.
   *
   * @param isSound whether it is known what was passed on; if not, nobody goes on
   */
  synchronized void giveBack(boolean isSound) {
    if (isSound) {
      relay.passed(consumer.offsets());
      isTaken = false;
    }
    if (!isSound || relay.isOver()) {
      close();
    }
    notifyAll();
  }

  /** There are no more turns. */
  synchronized void end() {
    if (!isTaken) {
      close();
    }
  }

  private void close() {
    if (consumer != null) {
      consumer.close();
      consumer = null;
    }
  }
}
