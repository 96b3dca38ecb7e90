package replication.plugin;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;

/**
 * Lets Python connect to this JVM for as long as it lives. py4j stops listening after the first
 * connection that it cannot take, as where no more files may be open: a thread of Python that
 * connects later would wait for ever, even once there is room again.
 */
public final class KeptGateway extends DefaultGatewayServerListener {
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  private final GatewayServer server;
  private volatile boolean isOver;

  private KeptGateway(GatewayServer server) {
    this.server = server;
  }

  /** Lets {@code server} listen again whenever it has stopped, unless somebody shuts it down. */
  public static void keep(GatewayServer server) {
    server.addListener(new KeptGateway(server));
  }

  @Override
  public void serverPreShutdown() {
    isOver = true;
  }

  @Override
  public void serverStopped() {
    if (!isOver) {
      Thread thread = new Thread(this::listenAgain, "replication-gateway");
      thread.setDaemon(true);
      thread.start();
    }
  }

  private void listenAgain() {
    LockSupport.parkNanos(PAUSE_NANOS);
    if (!isOver) {
      server.run();
    }
  }
}
