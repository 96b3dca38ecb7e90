import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Prints the answers of MirrorMaker 2's own client about a target cluster, as one line of JSON.
 *
 * <p>Arguments: the target's bootstrap.servers, alias of the source, policy class, group. Each
 * answer has the name of the method that returned it.
 */
final class MirrorClientProbe {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final Pattern EVERY_GROUP = Pattern.compile(".*");

  public static void main(String[] arguments) throws Exception {
    String source = arguments[1];
    String group = arguments[3];
    Map<String, Object> properties =
        Map.of(
            "bootstrap.servers", arguments[0],
            "source.cluster.alias", source, // for the identity policy
            "replication.policy.class", arguments[2]);
    Map<String, Object> answers = new TreeMap<>();
    try (MirrorClient client = new MirrorClient(properties)) {
      answers.put("upstreamClusters", new TreeSet<>(client.upstreamClusters()));
      answers.put("replicationHops", client.replicationHops(source));
      answers.put("remoteTopics", new TreeSet<>(client.remoteTopics()));
      answers.put("remoteTopics(source)", new TreeSet<>(client.remoteTopics(source)));
      answers.put("heartbeatTopics", new TreeSet<>(client.heartbeatTopics()));
      answers.put("checkpointTopics", new TreeSet<>(client.checkpointTopics()));
      // Without the topic the client would retry until its timeout.
      if (client.checkpointTopics().contains(client.replicationPolicy().checkpointsTopic(source))) {
        answers.put(
            "translateOffsets",
            readable(RemoteClusterUtils.translateOffsets(properties, source, group, TIMEOUT)));
        Map<String, Object> groups = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(properties, source, EVERY_GROUP, TIMEOUT)
            .forEach((name, offsets) -> groups.put(name, readable(offsets)));
        answers.put("translateOffsets(pattern)", groups);
      }
    }
    // Escaped, because the encoding of stdout depends on the locale.
    System.out.println(
        JsonMapper.builder()
            .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
            .build()
            .writeValueAsString(answers));
  }

  private static Map<String, List<Object>> readable(
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    Map<String, List<Object>> readable = new TreeMap<>();
    offsets.forEach(
        (partition, offset) ->
            readable.put(partition.toString(), List.of(offset.offset(), offset.metadata())));
    return readable;
  }
}
