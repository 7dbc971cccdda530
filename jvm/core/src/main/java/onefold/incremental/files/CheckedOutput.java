package onefold.incremental.files;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.FSError;
import org.apache.hadoop.fs.Path;

/**
 * Writes a file, and throws IOException with its name where Hadoop does not: local files throw FSError,
 * which is no exception, when a disk is full.
 */
public final class CheckedOutput extends OutputStream {
    private final OutputStream out;
    private final Path path;

    public CheckedOutput(OutputStream out, Path path) {
        this.out = out;
        this.path = path;
    }

    /** A step that writes. */
    private interface Step {
        void run() throws IOException;
    }

    private void check(Step step) throws IOException {
        try {
            step.run();
        } catch (FSError e) {
            throw new IOException("cannot write " + path + ": " + e.getCause().getMessage(), e);
        }
    }

    @Override
    public void write(int value) throws IOException {
        check(() -> out.write(value));
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
        check(() -> out.write(bytes, from, length));
    }

    @Override
    public void flush() throws IOException {
        check(out::flush);
    }

    @Override
    public void close() throws IOException {
        check(out::close);
    }
}
