package replication.tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import javax.security.auth.Subject;
import javax.security.auth.callback.CallbackHandler;
import org.apache.kafka.common.security.scram.ScramLoginModule;

/** A login module of a user's own, for SCRAM: its password is the content of a file. */
public final class FileLogin extends ScramLoginModule {
  @Override
  public void initialize(
      Subject subject,
      CallbackHandler handler,
      Map<String, ?> sharedState,
      Map<String, ?> options) {
    Map<String, ?> complete =
        Map.of("username", options.get("user"), "password", content(options.get("file")));
    super.initialize(subject, handler, sharedState, complete);
  }

  private static String content(Object file) {
    try {
      return Files.readString(Path.of((String) file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
