package replication.calls;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.protocol.types.SchemaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import replication.plugin.KeptProducers;
import replication.producer.OwnerOnly;

/**
 * One owner among the members of a consumer group, as Connect's workers have one leader.
 *
 * <p>The members subscribe to a pattern that matches no topic, so the group needs no topic and
 * reads no record. The group's leader names one member the owner and sends the name to all. An
 * owner stays the owner over rebalances for as long as it stays the same member: it reports the
 * generation in which it last was the owner, and the greatest such generation wins. A member that
 * was expelled comes back under another member id, and is not the owner any more.
 *
 * <p>Loss is final and noticed in three ways: another member is named, this member's id has
 * changed, or no heartbeat was answered for {@code silenceMs}. The last one needs no broker: it
 * holds for an owner that is cut off, and for a process that was stopped and goes on later. No
 * clock of another machine is compared. Whoever is named next must wait until {@code silenceMs} are
 * over if the last owner did not release the lease; it was expelled {@code sessionMs} after the
 * coordinator had heard it, and so at least as long after the answer from which it counts.
 */
public final class Ownership {
  /** Matches nothing: no position is a word boundary and none at the same time. */
  private static final Pattern NO_TOPIC = Pattern.compile("\\b\\B");

  static final String SELF = "replication.ownership";
  private static final Duration POLL = Duration.ofSeconds(1);
  private static final long RETRY_MS = 300;
  private static final Duration LEAVE = Duration.ofSeconds(5);

  private final String group;
  private final String instance;
  private final String description;
  private final String producer;
  private final long silenceNanos;
  private final long aloneNanos;
  private final long turnNanos;
  private final Map<String, Object> config;
  private final Thread thread;

  private volatile boolean isClosing;
  private volatile KafkaConsumer<byte[], byte[]> consumer;

  // Guarded by `this`.
  private String identity = ""; // under which this member is the owner
  private String ownerDescription = "";
  private String reason = "";
  private String seen = ""; // the last owner that was another member of this group
  private String seenAs = ""; // under which id this member has seen it
  private String unread = ""; // what keeps the group from naming its owner
  private int ownedGeneration = -1;
  private boolean isAlone; // in the group's last generation, and nobody has asked to join since
  private boolean isAssigned;
  private boolean isJoining;
  private boolean isOwner;
  private boolean isLost;
  private long joinedAt = System.nanoTime(); // when the join that is under way was sent, or before
  private long firstJoinAt; // when the first join was sent; 0 before
  private long joinNanos; // until the group had named its owner for the first time
  private long answeredAt = System.nanoTime(); // a request of this time or later was answered

  /**
   * Joins the group; returns at once.
   *
   * @param properties client properties of the cluster, security included
   * @param group the group's id
   * @param instance a name that a restart of this member keeps: the restarted process takes its
   *     predecessor's place without waiting for the session to end
   * @param description what other members are shown of this one
   * @param producer client.id of the producers that may send only while this member is the owner;
   *     empty for none
   * @param sessionMs after which the coordinator expels a silent member
   * @param rebalanceMs for which a rebalance waits for its members; longer than a session, so that
   *     a dead member is expelled and not named
   * @param silenceMs after which an owner that hears nothing stops being one
   * @param aloneMs the same while no other member can follow it soon: whoever comes later has not
   *     seen it, and waits longer
   * @param heartbeatMs from one heartbeat to the next
   * @param turnMs from one look at what the group says to the next
   */
  public Ownership(
      Map<String, String> properties,
      String group,
      String instance,
      String description,
      String producer,
      int sessionMs,
      int rebalanceMs,
      long silenceMs,
      long aloneMs,
      int heartbeatMs,
      int turnMs) {
    this.group = group;
    this.instance = instance;
    this.description = description;
    this.producer = producer;
    this.silenceNanos = Duration.ofMillis(silenceMs).toNanos();
    this.aloneNanos = Duration.ofMillis(aloneMs).toNanos();
    this.turnNanos = Duration.ofMillis(turnMs).toNanos();
    config = new HashMap<>(properties);
    config.put("group.id", group);
    config.put("group.instance.id", instance);
    config.put("group.protocol", "classic");
    config.put("session.timeout.ms", sessionMs);
    config.put("heartbeat.interval.ms", heartbeatMs);
    // how often its thread wakes up; shorter than the pause before a new connection: see
    // defaults.py
    config.putIfAbsent("retry.backoff.ms", RETRY_MS);
    config.put("max.poll.interval.ms", rebalanceMs);
    config.put("enable.auto.commit", false);
    config.put("partition.assignment.strategy", List.of(OwnerAssignor.class.getName()));
    config.put("key.deserializer", ByteArrayDeserializer.class.getName());
    config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    config.put(SELF, this);
    thread = new Thread(this::run, "ownership " + group);
    thread.setDaemon(true);
    // Kafka loads the assignor by its name; py4j's threads do not know the jars of spark-submit.
    thread.setContextClassLoader(Ownership.class.getClassLoader());
    thread.start();
  }

  /** One of {@code joining}, {@code waiting}, {@code owner}, {@code lost}. */
  public synchronized String state() {
    refuseSilence(); // not left to the thread: it may be the one that hangs
    if (isLost) {
      return "lost";
    }
    return isOwner ? "owner" : isAssigned ? "waiting" : "joining";
  }

  /** The generation of the group in which this member became the owner; 1 is the group's first. */
  public synchronized int generation() {
    return ownedGeneration;
  }

  /** How long the group took to name its owner to this member for the first time. */
  public synchronized double joinSeconds() {
    return joinNanos / 1e9;
  }

  /** The description of the present owner; empty while nobody is known. */
  public synchronized String owner() {
    return ownerDescription;
  }

  /**
   * The owner before this member, as it described itself, if this one was in the group with it
   * until its end: then that owner had not thought itself alone. Empty otherwise.
   */
  public synchronized String seen() {
    return seen;
  }

  /** Why the lease was lost or the group cannot be joined; empty while all is well. */
  public synchronized String reason() {
    return reason;
  }

  /** Leaves the group, so that another member is named at once. Of no use afterwards. */
  public void leave() throws InterruptedException {
    isClosing = true;
    KafkaConsumer<byte[], byte[]> current = consumer;
    if (current != null) {
      current.wakeup();
    }
    LockSupport.unpark(thread);
    thread.join(LEAVE.toMillis());
    if (!hasLost()) {
      if (hasJoined()) { // else the cluster has never answered, and would be waited for
        giveUpPlace();
      }
      release();
    }
  }

  /** A static member does not leave by closing its consumer: its place is kept for a restart. */
  private void giveUpPlace() throws InterruptedException {
    Map<String, Object> properties = new HashMap<>(config);
    List.of(SELF, "partition.assignment.strategy").forEach(properties::remove);
    properties.put("request.timeout.ms", (int) LEAVE.toMillis());
    properties.put("default.api.timeout.ms", (int) LEAVE.toMillis());
    try (Admin admin = Admin.create(properties)) {
      MemberToRemove self = new MemberToRemove(instance);
      admin
          .removeMembersFromConsumerGroup(
              group, new RemoveMembersFromConsumerGroupOptions(List.of(self)))
          .all()
          .get(LEAVE.toSeconds(), TimeUnit.SECONDS);
    } catch (KafkaException | ExecutionException | TimeoutException e) {
      // The session will end by itself: the next owner waits a few seconds longer.
    }
  }

  private void run() {
    try (KafkaConsumer<byte[], byte[]> joined = new KafkaConsumer<>(config)) {
      consumer = joined;
      joined.subscribe(NO_TOPIC);
      HeartbeatAnswers answers = new HeartbeatAnswers(joined);
      while (!isClosing && !hasLost()) {
        // Before the poll, which joins again where the answer was that this member is expelled.
        OptionalLong sentAt = answers.take();
        try {
          poll(joined, sentAt.isPresent());
        } catch (SchemaException | BufferUnderflowException e) {
          // Another member has sent what Kafka's client cannot read. It may leave, or be expelled.
          readNothing(e);
          LockSupport.parkNanos(this, POLL.toNanos());
        }
        sentAt.ifPresent(this::answered);
      }
    } catch (WakeupException e) {
      // leave() was called
    } catch (Throwable e) { // the thread's edge: nothing above would see it
      lose(ClientErrors.root(e));
    } finally {
      if (!isClosing) {
        lose("the consumer ended");
      }
    }
  }

  private void poll(KafkaConsumer<byte[], byte[]> joined, boolean hasHeard) {
    if (!isSettled()) {
      joined.poll(POLL);
    } else if (hasHeard) {
      // The answer may have been that the group rebalances. A consumer that subscribes to a pattern
      // reads metadata before it joins again, for which a poll of no length never waits: the group
      // would go on without this member, by what it had said as it joined, and name another owner.
      joined.poll(Duration.ofNanos(turnNanos));
    } else {
      // Kafka's own thread sends the heartbeats; a poll that waits wakes up for each.
      LockSupport.parkNanos(this, turnNanos);
      joined.poll(Duration.ZERO);
    }
  }

  private synchronized void readNothing(RuntimeException e) {
    unread = "; another member of the group sends what is no report: " + ClientErrors.root(e);
  }

  private synchronized boolean hasJoined() {
    return firstJoinAt != 0;
  }

  private synchronized boolean hasLost() {
    refuseSilence();
    return isLost;
  }

  /**
   * Whether the group has its owner and heartbeats are answered, so that `poll` has nothing to do.
   */
  private synchronized boolean isSettled() {
    return isAssigned && !isJoining && System.nanoTime() - answeredAt < silenceNanos / 2;
  }

  synchronized void answered(long sentAt) {
    refuseSilence(); // or a lease would be held again whose producers have refused records
    if (!isLost && !isJoining && sentAt - answeredAt > 0) {
      answeredAt = sentAt;
      allow();
    }
  }

  private void refuseSilence() {
    long silence = System.nanoTime() - answeredAt;
    if (isOwner && silence > limitNanos()) {
      long ms = Duration.ofNanos(silence).toMillis();
      lose("no heartbeat was answered for " + ms + " ms" + unread);
    }
  }

  synchronized void lose(String why) {
    if (!isLost) {
      isLost = true;
      reason = why;
      if (isOwner && !producer.isEmpty()) {
        OwnerOnly.allowUntil(producer, System.nanoTime() - 1); // until another lease is held
        abandonProducers();
      }
    }
    isOwner = false;
  }

  /**
   * Gives up what the producers hold: it would be written when the target answers again, behind the
   * records of the next owner. Beside this thread, which holds a lock: a producer ends its own one.
   */
  private void abandonProducers() {
    Thread ending =
        new Thread(() -> KeptProducers.abandon(Set.of(producer)), "abandon " + producer);
    ending.setDaemon(true);
    ending.start();
  }

  private void allow() {
    if (isOwner && !producer.isEmpty()) {
      OwnerOnly.allowUntil(producer, answeredAt + limitNanos());
    }
  }

  private long limitNanos() {
    return isAlone ? aloneNanos : silenceNanos;
  }

  private synchronized void release() {
    if (isOwner && !producer.isEmpty()) {
      OwnerOnly.remove(producer);
    }
  }

  /**
   * What this member tells the group's leader as it joins: when it last was the owner, and who it
   * is.
   */
  synchronized ByteBuffer report() {
    isJoining = true;
    isAlone = false; // before the request is sent, which lets another member in
    allow();
    joinedAt = System.nanoTime();
    firstJoinAt = firstJoinAt == 0 ? joinedAt : firstJoinAt;
    String report = ownedGeneration + "\n" + description;
    return ByteBuffer.wrap(report.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * The leader has named an owner, whom it shows as {@code shown}; this process is {@code member}
   * of {@code members}, which are 0 if the leader has not said how many.
   */
  synchronized void assigned(
      String named, String shown, int members, ConsumerGroupMetadata member) {
    String id = identity(member.groupInstanceId().orElse(null), member.memberId());
    // Before the answer is counted: it may have waited while the process was paused.
    refuseSilence();
    if (isLost) {
      return;
    }
    answeredAt = joinedAt;
    unread = "";
    joinNanos = isAssigned ? joinNanos : System.nanoTime() - firstJoinAt;
    ownerDescription = shown;
    isAssigned = true;
    isJoining = false;
    isAlone = members == 1;
    boolean isNamed = named.equals(id);
    if (!isNamed && !named.isEmpty()) {
      seen = shown;
      seenAs = member.memberId();
    } else if (isNamed && !isOwner && !seenAs.equals(member.memberId())) {
      seen = ""; // this member was expelled meanwhile
    }
    if (isOwner && !isNamed && !named.isEmpty()) {
      lose("the group named another owner: " + shown);
    } else if (isOwner && !identity.equals(member.memberId())) {
      lose("the coordinator had expelled this member");
    } else if (isNamed) { // a leader that is no mirror names nobody: the owner stays the owner
      isOwner = true;
      identity = member.memberId();
      ownedGeneration = member.generationId();
      allow();
    }
  }

  /** What the leader names: a static member by its instance, which a restart keeps. */
  static String identity(String instance, String memberId) {
    return instance == null ? memberId : "instance " + instance;
  }
}
