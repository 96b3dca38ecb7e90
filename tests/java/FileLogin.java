package replication.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import javax.security.auth.Subject;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.login.LoginException;
import javax.security.auth.spi.LoginModule;

/** A login module of a user's own, for SCRAM and PLAIN: its password is the content of a file. */
public final class FileLogin implements LoginModule {
  private Subject subject;
  private Map<String, ?> options;

  @Override
  public void initialize(
      Subject subject, CallbackHandler handler, Map<String, ?> sharedState, Map<String, ?> options) {
    this.subject = subject;
    this.options = options;
  }

  @Override
  public boolean login() throws LoginException {
    try {
      subject.getPublicCredentials().add(options.get("user"));
      subject.getPrivateCredentials().add(Files.readString(Path.of((String) options.get("file"))));
      return true;
    } catch (IOException e) {
      throw new LoginException(e.toString());
    }
  }

  @Override
  public boolean commit() {
    return true;
  }

  @Override
  public boolean abort() {
    return false;
  }

  @Override
  public boolean logout() {
    return true;
  }
}
