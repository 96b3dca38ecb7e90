package replication.calls;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

/** Which code and text Python reads for an error of a Kafka client. */
final class ClientErrorsTest {
  private static final ClusterAuthorizationException DENIED =
      new ClusterAuthorizationException("Cluster authorization failed.");

  @Test
  void anErrorThatAClientRepeatsIsTheOneThatItWasToldByTheBroker() {
    var again = new KafkaException("Cannot execute: we are in an error state", DENIED);

    for (Exception error : new Exception[] {DENIED, again, new KafkaException("twice", again)}) {
      assertError("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.", error);
    }
  }

  @Test
  void aFutureSaysWhatItsCallFailedBy() {
    assertError("_TIMED_OUT", "late", new ExecutionException(new TimeoutException("late")));
    assertError("_INTR", "stopped", new ExecutionException(new InterruptedException("stopped")));
    assertError("_INVALID_ARG", "odd", new CompletionException(new KafkaException("odd")));
  }

  @Test
  void aClientThatCannotBeCreatedSaysWhy() {
    var refused = new SaslAuthenticationException("no such user");
    var unresolved = new ConfigException("No resolvable bootstrap urls given in");

    assertError("_AUTHENTICATION", "no such user", new KafkaException("Failed to make", refused));
    assertError(
        "_RESOLVE",
        "Failed to make: No resolvable bootstrap urls given in",
        new KafkaException("Failed to make", unresolved));
  }

  private static void assertError(String code, String text, Exception error) {
    var node = ClientErrors.node(error);
    assertEquals(code, node.get("code").asText());
    assertEquals(text, node.get("text").asText());
  }
}
