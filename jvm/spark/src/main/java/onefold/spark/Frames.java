package onefold.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import onefold.incremental.split.Fingerprint;

/**
 * What passes between a task's reader, the function (in Python or Java) and its writer: arrays of
 * bytes, the first byte of which says what they are.
 */
final class Frames {
    /** An item begins; a byte of flags and the item's header follow. */
    static final byte BEGIN = 'S';
    /** Bytes of the split. */
    static final byte DATA = 'D';
    /** A frame of a known result: of the item itself if it is verified, of the next child for a node. */
    static final byte KNOWN = 'P';
    /** A frame of the item's result; its part follows in four bytes, then what downstream gets. */
    static final byte OUTPUT = 'O';
    /** The item ends. */
    static final byte END = 'E';
    /** The item's result is replayed: nothing to compute. The header follows as behind BEGIN. */
    static final byte REPLAY = 'R';
    /** The item cannot be computed, since a child is missing. The header follows as behind BEGIN. */
    static final byte ABANDON = 'X';

    /** Flag: the known result comes first, and the computed one must equal it. */
    static final int VERIFIED = 1;
    /** Flag: the writer publishes the result. */
    static final int WRITTEN = 2;
    /** Flag: the item is a node, and has known frames but no data. */
    static final int NODE = 4;
    /** Flag: data begin with a byte order mark that is no part of the first record. */
    static final int MARK = 8;

    /** What stands in a header for the number of a replay. */
    static final int NO_REPLAY = -1;

    /** The longest frame of an entry that is read: 1 GiB. */
    private static final int LONGEST = 1 << 30;

    private Frames() {
    }

    /** What the writer has to know of an item; functions pass it on as it is. {@code replay} is for {@link Handover}. */
    record Header(int flags, int index, Fingerprint name, int part, int replay, String records) {
        byte[] frame(byte tag) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                out.writeByte(tag);
                out.writeByte(flags);
                out.writeInt(index);
                out.write(name.bytes());
                out.writeInt(part);
                out.writeInt(replay);
                out.writeUTF(records);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return bytes.toByteArray();
        }

        static Header of(byte[] frame) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(frame, 1, frame.length - 1));
            return new Header(in.readUnsignedByte(), in.readInt(), Item.readName(in), in.readInt(), in.readInt(),
                in.readUTF());
        }

        boolean has(int flag) {
            return (flags & flag) != 0;
        }
    }

    static byte[] frame(byte tag, byte[] content, int length) {
        byte[] frame = new byte[1 + length];
        frame[0] = tag;
        System.arraycopy(content, 0, frame, 1, length);
        return frame;
    }

    static byte[] output(int part, byte[] content) {
        return ByteBuffer.allocate(5 + content.length).put(OUTPUT).putInt(part).put(content).array();
    }

    /** The part of an {@link #OUTPUT} or {@link #KNOWN} frame. */
    static int part(byte[] frame) {
        return ByteBuffer.wrap(frame, 1, 4).getInt();
    }

    /** What is behind the part. */
    static byte[] content(byte[] frame) {
        return Arrays.copyOfRange(frame, 5, frame.length);
    }

    /** Writes a frame into an entry: its length without the tag, then that. */
    static void store(OutputStream out, byte[] frame) throws IOException {
        out.write(ByteBuffer.allocate(4).putInt(frame.length - 1).array());
        out.write(frame, 1, frame.length - 1);
    }

    /** The next frame of an entry with {@code tag} in front; null at its end. */
    static byte[] load(InputStream in, byte tag) throws IOException {
        byte[] prefix = in.readNBytes(4);
        if (prefix.length == 0) {
            return null;
        }
        int length = prefix.length < 4 ? -1 : ByteBuffer.wrap(prefix).getInt();
        if (length < 4 || length > LONGEST) {
            throw new IOException("an entry of the memo has a frame of " + length + " bytes; delete the memo");
        }
        // grows with what is there, whatever the length says
        byte[] content = in.readNBytes(length);
        if (content.length < length) {
            throw new EOFException("an entry of the memo ends " + content.length + " bytes into a frame of "
                + length + "; delete the memo");
        }
        return frame(tag, content, length);
    }
}
