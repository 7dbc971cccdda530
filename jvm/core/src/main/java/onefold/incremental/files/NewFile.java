package onefold.incremental.files;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * A file that appears under its name whole or not at all, and never replaces another.
 *
 * <p>Close it whether or not it was committed; without a commit nothing appears.
 */
public abstract class NewFile implements Closeable {
    /** Where the bytes go. */
    public abstract OutputStream out();

    /**
     * Makes the file appear.
     *
     * @return false if there is a file of the name already, which is left as it is
     */
    public abstract boolean commit() throws IOException;

    /** A new file {@code target}; {@code folder} on the same file system holds it until the commit. */
    public static NewFile create(FileSystem fs, Path target, Path folder) throws IOException {
        if (isObjectStore(fs)) {
            return new Conditional(fs, target);
        }
        return new Renamed(fs, target, new Path(folder, "new-" + UUID.randomUUID()));
    }

    /** The file system itself: what is kept here has digests of its own, beside which no .crc is needed. */
    public static FileSystem raw(FileSystem fs) {
        return fs instanceof LocalFileSystem local ? local.getRaw() : fs;
    }

    private static boolean isObjectStore(FileSystem fs) {
        return fs.getUri().getScheme().equals("s3a");
    }

    /** Written under another name. HDFS renames only to a name that is free; local files are linked. */
    private static final class Renamed extends NewFile {
        private final FileSystem fs;
        private final Path target;
        private final Path temporary;
        private final OutputStream out;
        private boolean isDone;

        Renamed(FileSystem fs, Path target, Path temporary) throws IOException {
            this.fs = fs;
            this.target = target;
            this.temporary = temporary;
            out = new CheckedOutput(fs.create(temporary, false), temporary);
        }

        @Override
        public OutputStream out() {
            return out;
        }

        @Override
        public boolean commit() throws IOException {
            out.close();
            fs.mkdirs(target.getParent());
            if (fs instanceof RawLocalFileSystem local) {
                return link(local);
            }
            if (fs.rename(temporary, target)) {
                isDone = true;
                return true;
            }
            if (fs.exists(target)) {
                return false;
            }
            throw new IOException("cannot rename " + temporary + " to " + target);
        }

        private boolean link(RawLocalFileSystem local) throws IOException {
            java.nio.file.Path from = local.pathToFile(temporary).toPath();
            java.nio.file.Path to = local.pathToFile(target).toPath();
            try {
                Files.createLink(to, from);
                return true;
            } catch (FileAlreadyExistsException e) {
                return false;
            } catch (UnsupportedOperationException | FileSystemException e) {
                // No links here. A crash in a copy leaves a part, which its digest tells from a whole.
                try {
                    Files.copy(from, to);
                    return true;
                } catch (FileAlreadyExistsException there) {
                    return false;
                }
            }
        }

        @Override
        public void close() throws IOException {
            try {
                out.close();
            } finally {
                if (!isDone) {
                    fs.delete(temporary, false);
                }
            }
        }
    }

    /** An object appears when it is closed, on the condition that there is none of its name. */
    private static final class Conditional extends NewFile {
        private final FileSystem fs;
        private final Path target;
        private final FSDataOutputStream out;
        private boolean isDone;

        Conditional(FileSystem fs, Path target) throws IOException {
            this.fs = fs;
            this.target = target;
            // Hadoop declares the builder without its types
            @SuppressWarnings("unchecked")
            FSDataOutputStreamBuilder<FSDataOutputStream, ?> builder = fs.createFile(target);
            builder.overwrite(true).recursive()
                .must(Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
            out = builder.build();
        }

        @Override
        public OutputStream out() {
            return out;
        }

        @Override
        public boolean commit() throws IOException {
            isDone = true;
            try {
                out.close();
                return true;
            } catch (IOException e) {
                try {
                    fs.getFileStatus(target);
                    return false;
                } catch (FileNotFoundException missing) {
                    throw e;
                }
            }
        }

        @Override
        public void close() throws IOException {
            if (!isDone) {
                out.abort();
            }
        }
    }
}
