package onefold.incremental.mapreduce;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.apache.hadoop.io.WritableUtils;

/** The result of a split: the serialized output of its mapper, and what it counted. */
final class Payload {
    /** The kind of these entries in a memo. */
    static final int KIND = 1;

    private static final int END = 0;
    private static final int PAIR = 1;
    private static final int COUNTER = 2;

    private Payload() {
    }

    /** Takes a result as it is read. */
    interface Reader {
        /** A key and its value, serialized; the arrays are the reader's for the call. */
        void pair(byte[] key, int keyLength, byte[] value, int valueLength) throws IOException, InterruptedException;

        /** What the split added to a counter. */
        void counter(String group, String name, long value);
    }

    /** Writes a result. */
    static final class Writer {
        private final DataOutputStream out;

        Writer(OutputStream out) {
            this.out = new DataOutputStream(out);
        }

        void pair(byte[] key, int keyFrom, int keyLength, byte[] value, int valueFrom, int valueLength)
                throws IOException {
            out.writeByte(PAIR);
            WritableUtils.writeVInt(out, keyLength);
            WritableUtils.writeVInt(out, valueLength);
            out.write(key, keyFrom, keyLength);
            out.write(value, valueFrom, valueLength);
        }

        void counter(String group, String name, long value) throws IOException {
            out.writeByte(COUNTER);
            out.writeUTF(group);
            out.writeUTF(name);
            out.writeLong(value);
        }

        void end() throws IOException {
            out.writeByte(END);
            out.flush();
        }
    }

    /** Reads a result, whose bytes were checked. */
    static void read(InputStream payload, Reader reader) throws IOException, InterruptedException {
        DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(payload, 1 << 16));
        byte[] key = new byte[256];
        byte[] value = new byte[256];
        while (true) {
            int tag = in.readByte();
            if (tag == PAIR) {
                int keyLength = WritableUtils.readVInt(in);
                int valueLength = WritableUtils.readVInt(in);
                key = fill(in, key, keyLength);
                value = fill(in, value, valueLength);
                reader.pair(key, keyLength, value, valueLength);
            } else if (tag == COUNTER) {
                reader.counter(in.readUTF(), in.readUTF(), in.readLong());
            } else if (tag == END) {
                return;
            } else {
                throw new IOException("a result with a part of kind " + tag + ", expected 0 to 2");
            }
        }
    }

    /** Fills {@code bytes} or a longer array with the next {@code length} bytes. */
    private static byte[] fill(DataInputStream in, byte[] bytes, int length) throws IOException {
        if (length < 0) {
            throw new IOException("a result with a key or value of " + length + " bytes");
        }
        if (length <= bytes.length) {
            in.readFully(bytes, 0, length);
            return bytes;
        }
        // grows with what is there, whatever the length says
        byte[] read = in.readNBytes(length);
        if (read.length < length) {
            throw new EOFException("a result ends within a key or value of " + length + " bytes");
        }
        return read;
    }
}
