package replication.calls;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;

/**
 * What a round of checkpoints asks about consumer groups, with one round trip from Python for each
 * question.
 *
 * <p>Without it, a round with three groups takes some ninety. The answers are JSON.
 */
public final class GroupCalls {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Admin admin;

  public GroupCalls(Admin admin) {
    this.admin = admin;
  }

  /** The state of every consumer group: {@code {"group": "STABLE"}}. */
  public String states() throws ExecutionException, InterruptedException {
    ObjectNode states = JSON.createObjectNode();
    for (var group : admin.listConsumerGroups().all().get()) {
      group.state().ifPresent(state -> states.put(group.groupId(), state.name()));
    }
    return states.toString();
  }

  /**
   * The committed offsets of {@code ["group", ...]}: {@code {"group": [["topic", 0, 42,
   * "metadata"], ...]}}.
   *
   * <p>A group whose offsets cannot be read has the error instead, an object as {@link
   * ClientErrors} writes it.
   */
  public String committed(String groups) throws JsonProcessingException, InterruptedException {
    Map<String, ListConsumerGroupOffsetsSpec> asked = new HashMap<>();
    for (String group : JSON.readValue(groups, new TypeReference<List<String>>() {})) {
      asked.put(group, new ListConsumerGroupOffsetsSpec());
    }
    var found = admin.listConsumerGroupOffsets(asked);
    ObjectNode answers = JSON.createObjectNode();
    for (String group : asked.keySet()) {
      try {
        var offsets = found.partitionsToOffsetAndMetadata(group).get();
        ArrayNode written = answers.putArray(group);
        offsets.forEach(
            (partition, position) -> {
              if (position != null) { // the group has committed none there
                written
                    .addArray()
                    .add(partition.topic())
                    .add(partition.partition())
                    .add(position.offset())
                    .add(position.metadata());
              }
            });
      } catch (ExecutionException failure) {
        answers.set(group, ClientErrors.node(failure));
      }
    }
    return answers.toString();
  }
}
