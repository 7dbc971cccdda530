package onefold.incremental.memo;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The bytes of an entry: a header, the payload, its length, and the digest of all before. */
final class Entry {
    private static final byte[] MAGIC = "ONEFMEMO".getBytes(StandardCharsets.US_ASCII);
    /** Of the format; files of another version have other names. */
    static final int VERSION = 1;
    private static final int HEADER = MAGIC.length + 4 + 2 * Fingerprint.LENGTH;
    private static final int TRAILER = 8 + Fingerprint.LENGTH;
    /** A payload up to this length is read once and kept in memory; a longer one is read twice. */
    private static final int IN_MEMORY = 16 << 20;

    private Entry() {
    }

    private static byte[] header(JobKey job, Fingerprint split, int kind) {
        return ByteBuffer.allocate(HEADER).order(ByteOrder.LITTLE_ENDIAN).put(MAGIC)
            .putShort((short) VERSION).putShort((short) kind)
            .put(HexFormat.of().parseHex(job.id())).put(split.bytes()).array();
    }

    static InputStream open(FileSystem fs, Path path, long length, JobKey job, Fingerprint split, int kind)
            throws IOException {
        long payload = length - HEADER - TRAILER;
        if (payload < 0) {
            throw new DamagedEntry(path, "it has " + length + " bytes, expected at least " + (HEADER + TRAILER));
        }
        FSDataInputStream in = fs.open(path);
        try {
            byte[] header = in.readNBytes(HEADER);
            if (!Arrays.equals(header, header(job, split, kind))) {
                throw new DamagedEntry(path, "its header is not that of its name");
            }
            MessageDigest digest = Fingerprint.digest();
            digest.update(header);
            byte[] kept = check(in, payload, digest, path);
            if (kept != null) {
                in.close();
                return new ByteArrayInputStream(kept);
            }
            in.seek(HEADER);
            return new Bounded(in, payload);
        } catch (IOException e) {
            in.close();
            throw e;
        }
    }

    /** Compares the digest; returns the payload if it is short. */
    private static byte[] check(InputStream in, long payload, MessageDigest digest, Path path) throws IOException {
        byte[] kept = null;
        if (payload <= IN_MEMORY) {
            kept = in.readNBytes((int) payload);
            digest.update(kept);
        } else {
            byte[] buffer = new byte[1 << 20];
            for (long left = payload; left > 0;) {
                int read = in.read(buffer, 0, (int) Math.min(left, buffer.length));
                if (read < 0) {
                    throw new DamagedEntry(path, "it ends too early");
                }
                digest.update(buffer, 0, read);
                left -= read;
            }
        }
        byte[] length = in.readNBytes(8);
        digest.update(length);
        if (!Arrays.equals(length, le(payload)) || !Arrays.equals(digest.digest(), in.readNBytes(Fingerprint.LENGTH))) {
            throw new DamagedEntry(path, "its length or digest does not match");
        }
        return kept;
    }

    private static byte[] le(long number) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array();
    }

    /** The payload of a file that goes on behind it. */
    private static final class Bounded extends FilterInputStream {
        private long left;

        Bounded(InputStream in, long length) {
            super(in);
            left = length;
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
                throw new EOFException("a memo entry became shorter while it was read");
            }
            left -= read;
            return read;
        }

        @Override
        public long skip(long count) throws IOException {
            long skipped = in.skip(Math.min(count, left));
            left -= skipped;
            return skipped;
        }

        @Override
        public boolean markSupported() {
            return false;
        }
    }

    /** Writes a header, and the trailer behind the payload. */
    static final class Writer extends OutputStream {
        private final OutputStream out;
        private final MessageDigest digest = Fingerprint.digest();
        private long length;

        Writer(OutputStream out, JobKey job, Fingerprint split, int kind) throws IOException {
            this.out = out;
            byte[] header = header(job, split, kind);
            digest.update(header);
            out.write(header);
        }

        @Override
        public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
            digest.update(bytes, from, count);
            out.write(bytes, from, count);
            length += count;
        }

        void finish() throws IOException {
            byte[] trailer = le(length);
            digest.update(trailer);
            out.write(trailer);
            out.write(digest.digest());
        }
    }
}
