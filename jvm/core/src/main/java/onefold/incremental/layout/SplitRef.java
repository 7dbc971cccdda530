package onefold.incremental.layout;

import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import onefold.incremental.Refused;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;

/**
 * Where the bytes of a split are.
 *
 * @param file the file that holds them
 * @param offset where in {@code file} they begin
 * @param length how many they are, at least 1
 * @param fingerprint their fingerprint
 * @param position where in the data set's file they begin, which is {@code offset} unless splits are
 *     shared
 */
public record SplitRef(Path file, long offset, long length, Fingerprint fingerprint, long position) {
    /**
     * The split's bytes and no others. A read fails if the file ends before them, or if they have another
     * fingerprint, which the read of the last byte tells.
     */
    public InputStream open(Configuration conf) throws IOException {
        FSDataInputStream in = file.getFileSystem(conf).open(file);
        try {
            in.seek(offset);
        } catch (IOException e) {
            in.close();
            throw e;
        }
        return new Bounded(in, this);
    }

    private static final class Bounded extends InputStream {
        private final InputStream in;
        private final SplitRef split;
        private final MessageDigest digest = Fingerprint.digest();
        private long left;

        Bounded(InputStream in, SplitRef split) {
            this.in = in;
            this.split = split;
            left = split.length;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int from, int length) throws IOException {
            if (left == 0) {
                return length == 0 ? 0 : -1;
            }
            int read = in.read(bytes, from, (int) Math.min(length, left));
            if (read < 0) {
                throw new IOException(split.file + " ends " + left + " bytes before the end of the split at "
                    + split.offset + " of " + split.length + " bytes; run put again");
            }
            digest.update(bytes, from, read);
            left -= read;
            if (left == 0 && !Fingerprint.finish(digest).equals(split.fingerprint)) {
                throw new Refused(split.file + " changed since its splits were found: its " + split.length
                    + " bytes at " + split.offset + " have another fingerprint; run put again if it has a manifest"
                    + " (a shared split that is damaged must be deleted first), then run the job again");
            }
            return read;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }
}
