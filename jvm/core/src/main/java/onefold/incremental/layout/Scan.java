package onefold.incremental.layout;

import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import onefold.incremental.split.Splitter;

/** Reads bytes once, finds their splits, and passes both on. */
final class Scan {
    private static final int BUFFER = 1 << 20;

    /** Takes bytes, and is told where splits end. */
    interface Sink {
        void write(byte[] bytes, int from, int length) throws IOException;

        /** A split ends with the last byte written. */
        void end() throws IOException;
    }

    /** A sink that takes nothing. */
    static final Sink NOTHING = new Sink() {
        @Override
        public void write(byte[] bytes, int from, int length) {
        }

        @Override
        public void end() {
        }
    };

    private Scan() {
    }

    /** Reads {@code in} to its end; {@code name} is for messages. */
    static Manifest.Builder run(InputStream in, SplitSizes sizes, Records records, String name, Sink sink)
            throws IOException {
        Splitter splitter = new Splitter(sizes, records);
        MessageDigest digest = Fingerprint.digest();
        Manifest.Builder found = new Manifest.Builder();
        byte[] buffer = new byte[BUFFER];
        long length = 0;
        boolean isFirst = true;
        for (int read; (read = in.readNBytes(buffer, 0, BUFFER)) > 0;) {
            if (isFirst) {
                Format.check(buffer, read, name);
                isFirst = false;
            }
            for (int at = 0; at < read;) {
                int end = splitter.next(buffer, at, read);
                int stop = end < 0 ? read : end;
                digest.update(buffer, at, stop - at);
                sink.write(buffer, at, stop - at);
                length += stop - at;
                at = stop;
                if (end >= 0) {
                    found.add(length, Fingerprint.finish(digest));
                    sink.end();
                    length = 0;
                }
            }
        }
        if (length > 0) {
            found.add(length, Fingerprint.finish(digest));
            sink.end();
        }
        return found;
    }
}
