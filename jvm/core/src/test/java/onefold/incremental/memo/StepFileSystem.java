package onefold.incremental.memo;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Local files under the scheme {@code step}, with something that happens before a chosen call.
 *
 * <p>Calls are numbered from 0: those of the file system, and writes and closes of its files.
 */
public final class StepFileSystem extends RawLocalFileSystem {
    /** What happens before a call; it may throw. */
    interface Event {
        void run() throws IOException;
    }

    private static int left = -1;
    private static Event event;
    private static boolean isCrashed;

    /** A configuration that knows the scheme. */
    static Configuration configuration() {
        Configuration conf = new Configuration();
        conf.setClass("fs.step.impl", StepFileSystem.class, org.apache.hadoop.fs.FileSystem.class);
        conf.setBoolean("fs.step.impl.disable.cache", true);
        return conf;
    }

    /** All calls work from now on. */
    static void reset() {
        left = -1;
        isCrashed = false;
    }

    /** The call of this number and all after it fail, as if the process had died before it. */
    static void crashBefore(int call) {
        runBefore(call, () -> isCrashed = true);
    }

    /** Before the call of this number {@code what} happens, once. */
    static void runBefore(int call, Event what) {
        isCrashed = false;
        left = call;
        event = what;
    }

    /** Whether the event has yet to happen. */
    static boolean isPending() {
        return left >= 0;
    }

    private static void step() throws IOException {
        if (left == 0) {
            left = -1;
            event.run();
        } else if (left > 0) {
            left--;
        }
        if (isCrashed) {
            throw new IOException("crashed");
        }
    }

    @Override
    public URI getUri() {
        return URI.create("step:///");
    }

    @Override
    public String getScheme() {
        return "step";
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        step();
        return super.open(path, bufferSize);
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        step();
        OutputStream out = super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
        return new FSDataOutputStream(new Stepping(out), null);
    }

    @Override
    public FSDataOutputStream create(Path path, boolean overwrite, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        step();
        OutputStream out = super.create(path, overwrite, bufferSize, replication, blockSize, progress);
        return new FSDataOutputStream(new Stepping(out), null);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        step();
        return super.rename(from, to);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        step();
        return super.delete(path, recursive);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws FileNotFoundException, IOException {
        step();
        return super.listStatus(path);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        step();
        return super.getFileStatus(path);
    }

    private static final class Stepping extends OutputStream {
        private final OutputStream out;

        Stepping(OutputStream out) {
            this.out = out;
        }

        @Override
        public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            step();
            out.write(bytes, from, length);
            // what is written may be on the disk before the crash
            out.flush();
        }

        @Override
        public void close() throws IOException {
            step();
            out.close();
        }
    }
}
