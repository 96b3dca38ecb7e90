package replication.plugin;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;

/**
 * How long brokers make this process's clients wait for a quota, by what the clients have
 * registered with JMX: the mean of their requests of the last half minute or so.
 *
 * <p>Clients of the same {@code client.id} show the values of the newest; a quota is theirs
 * together.
 */
final class QuotaWaits {
  private static final long INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(5);

  private static final Map<ObjectName, String> ATTRIBUTES =
      Map.of(
          name("kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*"),
          "fetch-throttle-time-avg",
          name("kafka.producer:type=producer-metrics,client-id=*"),
          "produce-throttle-time-avg");

  private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
  private final Map<ObjectName, String> clients = new HashMap<>(); // with what is read of each
  private volatile boolean haveChanged = true; // the beans, since the last search
  private Map<String, Double> found = Map.of();
  private long lookedAt = System.nanoTime() - INTERVAL_NANOS;

  QuotaWaits() {
    try {
      server.addNotificationListener(
          MBeanServerDelegate.DELEGATE_NAME, (change, unused) -> haveChanged = true, null, null);
    } catch (InstanceNotFoundException e) { // each server has its delegate
      throw new IllegalStateException(e);
    }
  }

  private static ObjectName name(String pattern) {
    try {
      return new ObjectName(pattern);
    } catch (MalformedObjectNameException e) {
      throw new IllegalArgumentException(pattern, e);
    }
  }

  /** Appends {@code throttled milliseconds client.id} for each client that waits. */
  void appendTo(StringBuilder lines) {
    long now = System.nanoTime();
    if (now - lookedAt >= INTERVAL_NANOS) {
      lookedAt = now;
      found = look();
    }
    found.forEach(
        (client, millis) ->
            lines
                .append("throttled\t")
                .append(Math.round(millis))
                .append('\t')
                .append(client)
                .append('\n'));
  }

  /**
   * The clients that wait, and for how many milliseconds. A search goes through all beans, of which
   * a consumer has one for each partition.
   */
  Map<String, Double> look() {
    if (haveChanged) {
      haveChanged = false; // before the search: it need not see what comes meanwhile
      clients.clear();
      ATTRIBUTES.forEach(
          (kind, attribute) ->
              server.queryNames(kind, null).forEach(client -> clients.put(client, attribute)));
    }
    Map<String, Double> found = new TreeMap<>();
    clients.forEach(
        (client, attribute) -> {
          double millis = read(client, attribute);
          if (millis >= 1) { // not NaN, which is a client without requests
            found.merge(clientId(client), millis, Math::max);
          }
        });
    return found;
  }

  private static String clientId(ObjectName client) {
    String id = client.getKeyProperty("client-id");
    return id.startsWith("\"") ? ObjectName.unquote(id) : id;
  }

  private double read(ObjectName client, String attribute) {
    try {
      return ((Number) server.getAttribute(client, attribute)).doubleValue();
    } catch (JMException e) { // the client was closed meanwhile, or has no such request
      return Double.NaN;
    }
  }
}
