package replication.plugin;

import java.net.URI;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Files of this machine, as {@code plain:///folder/file}, for the checkpoints of queries.
 *
 * <p>Each batch writes two files. Without native libraries, which PySpark does not bring, Hadoop
 * starts a process to set the permissions of each file, and one more for its checksum: that takes
 * longer than the rest of a small batch. Nothing reads a checkpoint after its query, so it needs no
 * checksum, and its folder has the permissions.
 */
public final class PlainFiles extends RawLocalFileSystem {
  private static final URI ROOT = URI.create("plain:///");

  @Override
  public URI getUri() {
    return ROOT;
  }

  @Override
  public void setPermission(Path path, FsPermission permission) {}
}
