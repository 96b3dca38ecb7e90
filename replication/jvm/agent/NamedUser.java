package replication.agent;

import org.apache.hadoop.security.UserGroupInformation;

/**
 * Gives the process's user a name before Spark asks Hadoop for it, whose login fails for a number
 * without one. OpenShift runs programs as such a user. It is an agent since SparkSubmit asks before
 * anything of a job runs.
 */
public final class NamedUser {
  private NamedUser() {}

  /** Called by the JVM, with what follows the jar's name in {@code -javaagent}. */
  public static void premain(String name) {
    System.setProperty("user.name", name);
    UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser(name));
  }
}
