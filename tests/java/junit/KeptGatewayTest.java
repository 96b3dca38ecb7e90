package replication.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;

/** py4j's server stops listening by any error; here, since nobody connects in time. */
final class KeptGatewayTest {
  private static final int CONNECT_MS = 50;

  private final Semaphore stops = new Semaphore(0);
  private final GatewayServer server = new GatewayServer(new Object(), 0, CONNECT_MS, 0);

  @Test
  void aServerThatHasStoppedListensAgainUntilItIsShutDown() throws InterruptedException {
    server.addListener(
        new DefaultGatewayServerListener() {
          @Override
          public void serverStopped() {
            stops.release();
          }
        });
    KeptGateway.keep(server);

    server.start();
    assertTrue(stops.tryAcquire(3, 60, TimeUnit.SECONDS), "it listens again");
    server.shutdown();
    stops.tryAcquire(1, 1, TimeUnit.SECONDS); // it may have listened at that moment
    stops.drainPermits();
    assertEquals(false, stops.tryAcquire(1, 2, TimeUnit.SECONDS), "it listens no more");
  }
}
