package replication;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One owner among the members of a consumer group, as Connect's workers have one leader.
 *
 * <p>The members subscribe to a pattern that matches no topic, so the group needs no topic and reads
 * no record. The group's leader names one member the owner and tells all of them. An owner stays the
 * owner over rebalances for as long as it stays the same member: it reports the generation in which
 * it last was the owner, and the greatest such generation wins. A member that was expelled comes
 * back under another member id, and then it is not the owner any more, whatever it believed.
 *
 * <p>Loss is final and noticed in three ways: another member is named, this member's id has changed,
 * or no heartbeat was answered for {@code silenceMs}. The last one needs no broker: it holds for an
 * owner that is cut off, and for a process that was stopped and goes on later. No clock of another
 * machine is compared.
 */
public final class Ownership implements AutoCloseable {
  /** Matches nothing: after the start of a name nothing can come before it. */
  private static final Pattern NO_TOPIC = Pattern.compile("\\b\\B");

  private static final String SELF = "replication.ownership";
  private static final Duration POLL = Duration.ofMillis(200);
  private static final Duration LEAVE = Duration.ofSeconds(5);

  private final String description;
  private final long silenceNanos;
  private final Map<String, Object> config;
  private final Thread thread;

  private volatile boolean closing;
  private volatile KafkaConsumer<byte[], byte[]> consumer;

  // Written under `this`; one reader and one writer thread, so plain synchronisation is enough.
  private String identity = ""; // under which this member is the owner
  private String ownerDescription = "";
  private String reason = "";
  private int ownedGeneration = -1;
  private boolean isAssigned;
  private boolean isOwner;
  private boolean isLost;
  private long answeredAt = System.nanoTime();

  /**
   * Joins the group; returns at once.
   *
   * @param properties client properties of the cluster, security included
   * @param group the group's id
   * @param instance a name that a restart of this member keeps, or null: with one, the restarted
   *     process takes its predecessor's place without waiting for the session to end
   * @param description what other members are told of this one: host, process, since when
   * @param sessionMs after which the coordinator expels a silent member
   * @param silenceMs after which an owner that hears nothing stops believing that it is one
   */
  public Ownership(
      Map<String, String> properties,
      String group,
      String instance,
      String description,
      int sessionMs,
      long silenceMs) {
    this.description = description;
    this.silenceNanos = Duration.ofMillis(silenceMs).toNanos();
    config = new HashMap<>(properties);
    config.put("group.id", group);
    if (instance != null) {
      config.put("group.instance.id", instance);
    }
    config.put("group.protocol", "classic");
    config.put("session.timeout.ms", sessionMs);
    config.put("heartbeat.interval.ms", Math.max(1, sessionMs / 5));
    // The time for which a rebalance waits for its members: a dead one must not hold it up longer.
    config.put("max.poll.interval.ms", sessionMs);
    config.put("enable.auto.commit", false);
    config.put("allow.auto.create.topics", false);
    config.put("partition.assignment.strategy", List.of(Assignor.class.getName()));
    config.put("key.deserializer", ByteArrayDeserializer.class.getName());
    config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    config.put(SELF, this);
    thread = new Thread(this::run, "ownership " + group);
    thread.setDaemon(true);
    thread.start();
  }

  /** One of {@code joining}, {@code waiting}, {@code owner}, {@code lost}. */
  public synchronized String state() {
    if (isLost) {
      return "lost";
    }
    return isOwner ? "owner" : isAssigned ? "waiting" : "joining";
  }

  /** What the present owner told of itself; empty while nobody is known. */
  public synchronized String owner() {
    return ownerDescription;
  }

  /** Why the group was lost or cannot be joined; empty while all is well. */
  public synchronized String reason() {
    return reason;
  }

  /** Leaves the group, so that another member is the owner at once. */
  @Override
  public void close() throws InterruptedException {
    closing = true;
    KafkaConsumer<byte[], byte[]> current = consumer;
    if (current != null) {
      current.wakeup();
    }
    thread.join(LEAVE.toMillis());
  }

  private void run() {
    try (KafkaConsumer<byte[], byte[]> joined = new KafkaConsumer<>(config)) {
      consumer = joined;
      joined.subscribe(NO_TOPIC);
      long heartbeats = 0;
      while (!closing && !lost()) {
        refuseSilence(); // before the poll: after a pause, the poll would hide how long it was
        joined.poll(POLL);
        long answered = heartbeats(joined);
        if (answered > heartbeats) {
          heartbeats = answered;
          answered();
        }
      }
    } catch (WakeupException e) {
      // close() was called
    } catch (KafkaException | IllegalStateException e) {
      lose(e.getClass().getSimpleName() + ": " + e.getMessage());
    } finally {
      if (!closing) {
        lose("the consumer ended");
      }
    }
  }

  private static long heartbeats(KafkaConsumer<byte[], byte[]> consumer) {
    return consumer.metrics().values().stream()
        .filter(metric -> metric.metricName().name().equals("heartbeat-total"))
        .mapToLong(metric -> ((Number) metric.metricValue()).longValue())
        .sum();
  }

  private synchronized boolean lost() {
    return isLost;
  }

  private synchronized void answered() {
    answeredAt = System.nanoTime();
  }

  private synchronized void refuseSilence() {
    long silence = System.nanoTime() - answeredAt;
    if (isOwner && silence > silenceNanos) {
      lose("no heartbeat was answered for " + Duration.ofNanos(silence).toMillis() + " ms");
    }
  }

  private synchronized void lose(String why) {
    if (!isLost) {
      isLost = true;
      reason = why;
    }
    isOwner = false;
  }

  private synchronized ByteBuffer report() {
    String report = ownedGeneration + "\n" + description;
    return ByteBuffer.wrap(report.getBytes(StandardCharsets.UTF_8));
  }

  private synchronized void assigned(String named, String toldOfIt, ConsumerGroupMetadata member) {
    String id = identity(member.groupInstanceId().orElse(null), member.memberId());
    answeredAt = System.nanoTime();
    ownerDescription = toldOfIt;
    isAssigned = true;
    if (!named.equals(id)) {
      if (isOwner) {
        lose("the group named another owner: " + toldOfIt);
      }
    } else if (isOwner && !identity.equals(member.memberId())) {
      lose("the coordinator had expelled this member");
    } else {
      isOwner = true;
      identity = member.memberId();
      ownedGeneration = member.generationId();
    }
  }

  private static String identity(String instance, String memberId) {
    return instance == null ? memberId : "instance " + instance;
  }

  /** Names the owner. Public only because Kafka makes it by its class name. */
  public static final class Assignor implements ConsumerPartitionAssignor, Configurable {
    private Ownership ownership;

    @Override
    public void configure(Map<String, ?> configs) {
      ownership = (Ownership) configs.get(SELF);
    }

    @Override
    public String name() {
      return "replication-owner";
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
      return ownership.report();
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
      Map<String, Subscription> members = group.groupSubscription();
      // Of members that never were the owner any will do, if all leaders would choose the same.
      String owner =
          members.keySet().stream()
              .max(
                  Comparator.comparingInt((String id) -> ownedGeneration(members.get(id)))
                      .thenComparing(Comparator.reverseOrder()))
              .orElseThrow();
      Subscription of = members.get(owner);
      String named = identity(of.groupInstanceId().orElse(null), owner);
      byte[] told = (named + "\n" + parts(of.userData())[1]).getBytes(StandardCharsets.UTF_8);
      Map<String, Assignment> assignments = new HashMap<>();
      members.keySet().forEach(id -> assignments.put(id, assignment(told)));
      return new GroupAssignment(assignments);
    }

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata member) {
      String[] told = parts(assignment.userData());
      ownership.assigned(told[0], told[1], member);
    }

    private static Assignment assignment(byte[] told) {
      return new Assignment(List.of(), ByteBuffer.wrap(told));
    }

    private static int ownedGeneration(Subscription subscription) {
      return Integer.parseInt(parts(subscription.userData())[0]);
    }

    private static String[] parts(ByteBuffer data) {
      return StandardCharsets.UTF_8.decode(data.duplicate()).toString().split("\n", 2);
    }
  }
}
