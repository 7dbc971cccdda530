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
    /** Where owners and modes hold; other file systems may report some that nothing enforces. */
    private static final Set<String> ENFORCING = Set.of("file", "hdfs", "webhdfs", "swebhdfs", "viewfs");
    private static final String REASON = "reading pickled results runs code that whoever writes there can choose";
    private static final Set<Path> ENSURED = ConcurrentHashMap.newKeySet();

    private OwnFolder() {
    }

    /** Makes the folder if there is none; refuses one that others can or could write. Asks once a process. */
    static void ensure(Configuration conf, Path folder) throws IOException {
        if (ENSURED.contains(folder)) {
            return;
        }
        FileSystem fs = NewFile.raw(folder.getFileSystem(conf));
        String scheme = fs.getUri().getScheme();
        if (!ENFORCING.contains(scheme)) {
            throw new Refused("the memo " + folder + " is on " + scheme + ", which has no owners that hold: " + REASON
                + "; use a memo on HDFS or on local files, or map_in_arrow, which needs no owner");
        }
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
            // not chmod: what others wrote before would be read afterwards
            throw new Refused("the memo " + folder + " belongs to " + status.getOwner() + " with mode "
                + String.format("%03o", status.getPermission().toShort()) + ", expected " + user
                + " with mode 700: " + REASON + "; run the job with another folder, which it makes so");
        }
        ENSURED.add(folder);
    }
}
