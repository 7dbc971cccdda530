package onefold.incremental.layout;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import onefold.incremental.Refused;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import onefold.incremental.split.Splitter;

/**
 * The splits of a file, in order, and what they depend on. docs/incremental-format.md has the bytes.
 *
 * @param fileLength bytes of the file, which is the sum of the splits' lengths
 * @param modified the file's time of modification in ms, or 0 where splits are shared
 */
public record Manifest(
        Layout layout, SplitSizes sizes, Records records, long fileLength, long modified, List<Entry> entries) {
    /** The most splits that a manifest can have. */
    public static final int MAX_SPLITS = 1 << 20;

    /** The longest manifest in bytes. */
    public static final int MAX_LENGTH = 64 * MAX_SPLITS;

    private static final byte[] MAGIC = "ONEFSPLT".getBytes(StandardCharsets.US_ASCII);
    private static final int VERSION = 1;
    private static final int ENTRY = 8 + Fingerprint.LENGTH;

    /** Length in bytes and fingerprint of a split. */
    public record Entry(long length, Fingerprint fingerprint) {
    }

    public Manifest {
        entries = List.copyOf(entries);
        long sum = 0;
        for (Entry entry : entries) {
            sum = Math.addExact(sum, entry.length);
        }
        if (sum != fileLength || entries.size() > MAX_SPLITS) {
            throw new IllegalArgumentException(
                entries.size() + " splits of " + sum + " bytes for a file of " + fileLength);
        }
    }

    byte[] encode() {
        byte[] delimiter =
            records.kind() == Records.Kind.DELIMITER ? records.delimiter() : new byte[0];
        ByteBuffer bytes = ByteBuffer.allocate(
            MAGIC.length + 8 + 3 * 8 + 8 + delimiter.length + 2 * 8 + 4
            + entries.size() * ENTRY + Fingerprint.LENGTH);
        bytes.order(ByteOrder.LITTLE_ENDIAN).put(MAGIC).putShort((short) VERSION)
            .put((byte) layout.ordinal()).put((byte) Splitter.RULE).put((byte) Fingerprint.ALGORITHM)
            .put((byte) records.kind().ordinal()).putShort((short) delimiter.length)
            .putLong(sizes.min()).putLong(sizes.avg()).putLong(sizes.max())
            .putLong(records.length()).put(delimiter)
            .putLong(fileLength).putLong(modified).putInt(entries.size());
        for (Entry entry : entries) {
            bytes.putLong(entry.length).put(entry.fingerprint.bytes());
        }
        MessageDigest digest = Fingerprint.digest();
        digest.update(bytes.array(), 0, bytes.position());
        return bytes.put(digest.digest()).array();
    }

    /** Reads what {@code encode} wrote; {@code name} is for messages. */
    static Manifest decode(byte[] encoded, String name) throws Refused {
        int body = encoded.length - Fingerprint.LENGTH;
        if (body < MAGIC.length + 2 || !Arrays.equals(encoded, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            throw refused(name, "is no manifest of splits");
        }
        ByteBuffer bytes = ByteBuffer.wrap(encoded, 0, body).order(ByteOrder.LITTLE_ENDIAN);
        bytes.position(MAGIC.length);
        int version = bytes.getShort() & 0xffff;
        if (version != VERSION) {
            throw refused(name, "has version " + version + ", and this program reads version " + VERSION);
        }
        MessageDigest digest = Fingerprint.digest();
        digest.update(encoded, 0, body);
        if (!Arrays.equals(digest.digest(), Arrays.copyOfRange(encoded, body, encoded.length))) {
            throw refused(name, "is damaged: its digest does not match");
        }
        try {
            return decodeChecked(bytes, name);
        } catch (BufferUnderflowException e) {
            throw refused(name, "ends too early");
        } catch (IllegalArgumentException | ArithmeticException e) {
            throw refused(name, "contradicts itself: " + e.getMessage());
        }
    }

    private static Manifest decodeChecked(ByteBuffer bytes, String name) throws Refused {
        int layout = bytes.get();
        int rule = bytes.get();
        int algorithm = bytes.get();
        int kind = bytes.get();
        int delimiterLength = bytes.getShort() & 0xffff;
        if (layout < 0 || layout >= Layout.values().length || rule != Splitter.RULE
                || algorithm != Fingerprint.ALGORITHM || kind < 0 || kind >= Records.Kind.values().length
                || delimiterLength > Records.MAX_DELIMITER) {
            throw refused(name, "has a layout, rule, fingerprint or kind of records that this program does not know");
        }
        SplitSizes sizes = new SplitSizes(bytes.getLong(), bytes.getLong(), bytes.getLong());
        long recordLength = bytes.getLong();
        byte[] delimiter = new byte[delimiterLength];
        bytes.get(delimiter);
        Records records = switch (Records.Kind.values()[kind]) {
            case LINES -> Records.LINES;
            case DELIMITER -> Records.delimitedBy(delimiter);
            case LENGTH -> Records.ofLength(recordLength);
        };
        long fileLength = bytes.getLong();
        long modified = bytes.getLong();
        int count = bytes.getInt();
        if (count < 0 || count > MAX_SPLITS || bytes.remaining() != count * ENTRY) {
            throw refused(name, "has " + bytes.remaining() + " bytes for " + count + " splits of " + ENTRY);
        }
        List<Entry> entries = new ArrayList<>(count);
        byte[] fingerprint = new byte[Fingerprint.LENGTH];
        for (int i = 0; i < count; i++) {
            long length = bytes.getLong();
            if (length < 1) {
                throw refused(name, "has a split of " + length + " bytes");
            }
            bytes.get(fingerprint);
            entries.add(new Entry(length, Fingerprint.of(fingerprint)));
        }
        return new Manifest(Layout.values()[layout], sizes, records, fileLength, modified, entries);
    }

    private static Refused refused(String name, String reason) {
        return new Refused(name + " " + reason + "; run put again, or delete it to use the file without it");
    }

    /** Splits as they are found, with the sum of their lengths. */
    static final class Builder {
        private final List<Entry> entries = new ArrayList<>();
        private long length;

        void add(long splitLength, Fingerprint fingerprint) throws Refused {
            if (entries.size() == MAX_SPLITS) {
                throw new Refused("more than " + MAX_SPLITS + " splits in a file; ask for a larger --mean");
            }
            entries.add(new Entry(splitLength, fingerprint));
            length += splitLength;
        }

        Manifest build(Layout layout, SplitSizes sizes, Records records, long modified) {
            return new Manifest(layout, sizes, records, length, modified, entries);
        }
    }
}
