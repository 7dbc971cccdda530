package onefold.incremental.split;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import onefold.incremental.Refused;

/**
 * How the records of a file are told apart.
 *
 * <p>Each record but the last ends with its delimiter, or has the given length.
 */
public final class Records {
    /** Lines, which end with LF, or CR LF. A lone CR ends a line too, but no split. */
    public static final Records LINES = new Records(Kind.LINES, new byte[] {'\n'}, 0);

    /** The longest delimiter in bytes. */
    public static final int MAX_DELIMITER = 1024;

    /** Kinds of records; the ordinal is the number in a manifest. */
    public enum Kind { LINES, DELIMITER, LENGTH }

    private final Kind kind;
    private final byte[] delimiter;
    private final int length;

    private Records(Kind kind, byte[] delimiter, int length) {
        this.kind = kind;
        this.delimiter = delimiter;
        this.length = length;
    }

    /** Records that end with these bytes, 1 to 1,024. */
    public static Records delimitedBy(byte[] delimiter) throws Refused {
        if (delimiter.length == 0 || delimiter.length > MAX_DELIMITER) {
            throw new Refused("a delimiter of " + delimiter.length
                + " bytes: expected 1 to " + MAX_DELIMITER);
        }
        return new Records(Kind.DELIMITER, delimiter.clone(), 0);
    }

    /** Records of this many bytes, 1 to 1 GiB. */
    public static Records ofLength(long length) throws Refused {
        if (length < 1 || length > SplitSizes.LIMIT) {
            throw new Refused("records of " + length + " bytes: expected 1 to " + SplitSizes.LIMIT);
        }
        return new Records(Kind.LENGTH, new byte[0], (int) length);
    }

    /** Reads {@code lines}, {@code delimiter:X} or {@code length:N}; X may have \n, \r, \t, \\ and \xHH. */
    public static Records parse(String text) throws Refused {
        if (text.equals("lines")) {
            return LINES;
        }
        if (text.startsWith("delimiter:")) {
            return delimitedBy(unescape(text.substring("delimiter:".length())));
        }
        if (text.startsWith("length:")) {
            try {
                return ofLength(Long.parseLong(text.substring("length:".length())));
            } catch (NumberFormatException e) {
                throw new Refused("records '" + text + "': expected length: and a number of bytes", e);
            }
        }
        throw new Refused(
            "records '" + text + "': expected lines, delimiter:X or length:N");
    }

    private static byte[] unescape(String text) throws Refused {
        byte[] raw = text.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i < raw.length; i++) {
            if (raw[i] != '\\') {
                bytes.write(raw[i]);
                continue;
            }
            int code = i + 1 < raw.length ? raw[++i] : -1;
            switch (code) {
                case 'n' -> bytes.write('\n');
                case 'r' -> bytes.write('\r');
                case 't' -> bytes.write('\t');
                case '\\' -> bytes.write('\\');
                case 'x' -> {
                    try {
                        String hex = new String(raw, i + 1, 2, StandardCharsets.US_ASCII);
                        bytes.write(HexFormat.fromHexDigits(hex));
                        i += 2;
                    } catch (IndexOutOfBoundsException | IllegalArgumentException e) {
                        throw new Refused("delimiter '" + text + "': expected two hex digits after \\x", e);
                    }
                }
                default -> throw new Refused("delimiter '" + text
                    + "': a backslash must be followed by n, r, t, x or a backslash");
            }
        }
        return bytes.toByteArray();
    }

    public Kind kind() {
        return kind;
    }

    /** What ends a record; LF for lines, nothing for records of one length. */
    public byte[] delimiter() {
        return delimiter.clone();
    }

    /** Bytes in each record, or 0. */
    public int length() {
        return length;
    }

    /** A search for ends of records, at the beginning of a record. */
    Finder finder() {
        return switch (kind) {
            case LENGTH -> new OfLength(length);
            case LINES, DELIMITER ->
                delimiter.length == 1 ? new ByByte(delimiter[0]) : new ByBytes(delimiter);
        };
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Records that && kind == that.kind && length == that.length
            && Arrays.equals(delimiter, that.delimiter);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * kind.hashCode() + length) + Arrays.hashCode(delimiter);
    }

    /** As {@link #parse} reads it. */
    @Override
    public String toString() {
        return switch (kind) {
            case LINES -> "lines";
            case LENGTH -> "length:" + length;
            case DELIMITER -> {
                StringBuilder text = new StringBuilder("delimiter:");
                for (byte b : delimiter) {
                    if (b > ' ' && b < 0x7f && b != '\\') {
                        text.append((char) b);
                    } else {
                        text.append("\\x").append(HexFormat.of().toHexDigits(b));
                    }
                }
                yield text.toString();
            }
        };
    }

    /** A search for ends of records in bytes that come piece by piece. */
    interface Finder {
        /** The next byte begins a record. */
        void restart();

        /** Goes on behind these bytes. */
        void pass(byte[] bytes, int from, int to);

        /** Whether a record ends with the last byte passed. */
        boolean atEnd();

        /** The index just after the first record that ends in these bytes, or −1 after passing them. */
        int find(byte[] bytes, int from, int to);
    }

    private static final class ByByte implements Finder {
        private final byte delimiter;
        private boolean atEnd;

        ByByte(byte delimiter) {
            this.delimiter = delimiter;
        }

        @Override
        public void restart() {
            atEnd = false;
        }

        @Override
        public void pass(byte[] bytes, int from, int to) {
            if (from < to) {
                atEnd = bytes[to - 1] == delimiter;
            }
        }

        @Override
        public boolean atEnd() {
            return atEnd;
        }

        @Override
        public int find(byte[] bytes, int from, int to) {
            for (int i = from; i < to; i++) {
                if (bytes[i] == delimiter) {
                    return i + 1;
                }
            }
            return -1;
        }
    }

    /** By Knuth, Morris and Pratt, from the split's first byte on: delimiters can overlap themselves. */
    private static final class ByBytes implements Finder {
        private final byte[] delimiter;
        private final int[] border;
        private int matched;
        private boolean atEnd;

        ByBytes(byte[] delimiter) {
            this.delimiter = delimiter;
            border = new int[delimiter.length];
            for (int i = 1, k = 0; i < delimiter.length; i++) {
                while (k > 0 && delimiter[i] != delimiter[k]) {
                    k = border[k - 1];
                }
                if (delimiter[i] == delimiter[k]) {
                    k++;
                }
                border[i] = k;
            }
        }

        @Override
        public void restart() {
            matched = 0;
            atEnd = false;
        }

        @Override
        public void pass(byte[] bytes, int from, int to) {
            for (int at = from; at < to && at >= 0;) {
                at = find(bytes, at, to);
                atEnd = at == to;
            }
        }

        @Override
        public boolean atEnd() {
            return atEnd;
        }

        @Override
        public int find(byte[] bytes, int from, int to) {
            for (int i = from; i < to; i++) {
                while (matched > 0 && bytes[i] != delimiter[matched]) {
                    matched = border[matched - 1];
                }
                if (bytes[i] == delimiter[matched]) {
                    matched++;
                }
                if (matched == delimiter.length) {
                    matched = 0;
                    return i + 1;
                }
            }
            return -1;
        }
    }

    private static final class OfLength implements Finder {
        private final int length;
        /** Bytes of the record that is not yet complete. */
        private int part;

        OfLength(int length) {
            this.length = length;
        }

        @Override
        public void restart() {
            part = 0;
        }

        @Override
        public void pass(byte[] bytes, int from, int to) {
            part = (int) ((part + (long) (to - from)) % length);
        }

        @Override
        public boolean atEnd() {
            return part == 0;
        }

        @Override
        public int find(byte[] bytes, int from, int to) {
            int rest = length - part;
            if (rest <= to - from) {
                part = 0;
                return from + rest;
            }
            part += to - from;
            return -1;
        }
    }
}
