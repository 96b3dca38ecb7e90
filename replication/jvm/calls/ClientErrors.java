package replication.calls;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.protocol.Errors;

/**
 * The errors of Kafka's clients as text for Python: Kafka's name of a broker's error, or a name of
 * ours for the client's own.
 */
public final class ClientErrors {
  private ClientErrors() {}

  /**
   * {@code {"code": "TOPIC_AUTHORIZATION_FAILED", "text": "..."}}; the code begins with an
   * underscore, {@code "_SSL"}, if no broker gave it.
   */
  static ObjectNode node(Throwable failure) {
    Throwable error = unwrapped(failure);
    ObjectNode node = JsonNodeFactory.instance.objectNode();
    if (isOwnEnd(error)) {
      node.put("code", "_INTR");
    } else if (error instanceof SslAuthenticationException) {
      node.put("code", "_SSL");
    } else if (error instanceof AuthenticationException) {
      node.put("code", "_AUTHENTICATION");
    } else if (error instanceof TimeoutException) {
      node.put("code", "_TIMED_OUT");
    } else if (error instanceof ApiException) {
      node.put("code", Errors.forException(error).name());
    } else if (text(error).contains("No resolvable bootstrap urls")) {
      node.put("code", "_RESOLVE");
    } else {
      node.put(
          "code",
          "_INVALID_ARG"); // a client that cannot be created; everything else is an ApiException
    }
    return node.put("text", text(error));
  }

  /** Whether this process has ended the call itself: by an interrupt, or by closing the client. */
  private static boolean isOwnEnd(Throwable error) {
    return error instanceof InterruptedException
        || error instanceof InterruptException
        || error instanceof WakeupException
        || error instanceof CancellationException
        || (error instanceof IllegalStateException && text(error).contains("clos"))
        || (error instanceof TimeoutException && text(error).contains("AdminClient thread"));
  }

  /** {@link #node} as JSON text. */
  public static String json(Throwable failure) {
    return node(failure).toString();
  }

  /** The error that caused {@code failure}, by its class and its text. */
  static String root(Throwable failure) {
    Throwable root = failure;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root.getClass().getSimpleName() + ": " + root.getMessage();
  }

  /**
   * What a broker answered, where that is among the causes: a client wraps it in exceptions of its
   * own, and once it cannot go on, it says so of every further call. Otherwise the client's error
   * without its future's.
   */
  private static Throwable unwrapped(Throwable failure) {
    for (Throwable error = failure; error != null; error = error.getCause()) {
      if (error instanceof ApiException) {
        return error;
      }
    }
    Throwable error = failure;
    while ((error instanceof ExecutionException || error instanceof CompletionException)
        && error.getCause() != null) {
      error = error.getCause();
    }
    return error;
  }

  /** What the client says, then its causes: they name the certificate, the file or the KDC. */
  private static String text(Throwable error) {
    StringBuilder text = new StringBuilder(message(error));
    for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
      String message = message(cause);
      if (text.indexOf(message) < 0) {
        text.append(": ").append(message);
      }
    }
    return text.toString();
  }

  private static String message(Throwable error) {
    String message = error.getMessage();
    return message == null || message.isBlank()
        ? error.getClass().getSimpleName()
        : message.strip();
  }
}
