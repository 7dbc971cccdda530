package onefold.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import onefold.incremental.Refused;
import onefold.incremental.files.NewFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * A folder into which nobody but the user can write.
 *
 * <p>Reading a pickled or Java-serialized object runs code that the object names. So an entry that
 * another user could have written must not be read.
 */
final class OwnFolder {
    private static final short MODE = 0700;
    private static final Set<Path> ENSURED = ConcurrentHashMap.newKeySet();

    private OwnFolder() {
    }

    /** Makes the folder if there is none; refuses one of another owner or mode. Asks once a process. */
    static void ensure(Configuration conf, Path folder) throws IOException {
        if (ENSURED.contains(folder)) {
            return;
        }
        FileSystem fs = NewFile.raw(folder.getFileSystem(conf));
        FileStatus status;
        try {
            status = fs.getFileStatus(folder);
        } catch (FileNotFoundException e) {
            fs.mkdirs(folder, new FsPermission(MODE));
            status = fs.getFileStatus(folder);
        }
        String user = UserGroupInformation.getCurrentUser().getShortUserName();
        boolean isOwn = status.getOwner().equals(user) && status.getPermission().toShort() == MODE;
        if (!isOwn) {
            throw new Refused("the memo " + folder + " belongs to " + status.getOwner() + " with mode "
                + String.format("%03o", status.getPermission().toShort()) + ", expected " + user
                + " with mode 700: reading pickled results runs code that whoever writes there can choose; run: "
                + command(fs, folder, status.getOwner().equals(user)));
        }
        ENSURED.add(folder);
    }

    private static String command(FileSystem fs, Path folder, boolean isOwner) {
        String scheme = fs.getUri().getScheme();
        if (scheme.equals("s3a")) {
            return "the job with a memo on a file system that has owners, or with map_in_arrow, which needs none";
        }
        if (!isOwner) {
            return "the job with a memo folder of your own";
        }
        boolean isLocal = scheme.equals("file");
        return isLocal ? "chmod 700 " + folder.toUri().getPath() : "hdfs dfs -chmod 700 " + folder;
    }
}
