import java.io.File;
import java.util.Arrays;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/** A Kerberos server for the realm EXAMPLE.COM: FOLDER PORT PRINCIPAL..., ends with its stdin. */
public final class TestKdc {
  private TestKdc() {}

  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    SimpleKdcServer kdc = new SimpleKdcServer();
    kdc.setKdcHost("127.0.0.1");
    kdc.setKdcRealm("EXAMPLE.COM");
    kdc.setWorkDir(folder); // krb5.conf is written there
    kdc.setAllowUdp(false);
    kdc.setAllowTcp(true);
    kdc.setKdcTcpPort(Integer.parseInt(arguments[1]));
    kdc.init();
    String[] principals = Arrays.copyOfRange(arguments, 2, arguments.length);
    for (String principal : principals) {
      kdc.createPrincipal(principal, "of " + principal);
      kdc.exportPrincipal(principal, new File(folder, "all.keytab"));
    }
    kdc.start();
    System.out.println("ready");
    while (System.in.read() >= 0) {}
    kdc.stop();
  }
}
