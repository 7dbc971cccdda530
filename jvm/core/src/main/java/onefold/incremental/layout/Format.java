package onefold.incremental.layout;

import java.nio.charset.StandardCharsets;
import java.util.List;
import onefold.incremental.Refused;

/** Formats of files in which equal records do not give equal bytes, or which cannot be split anywhere. */
final class Format {
    private static final String COMPRESSED =
        "compressed bytes differ from the first change on; decompress it";
    private static final String BLOCKS = "its blocks end at markers or offsets of its own, not at records,"
        + " and a change moves them; write its records as lines";

    private record Magic(String bytes, String name, String reason) {
    }

    private static final List<Magic> MAGICS = List.of(
        new Magic("\u001f\u008b", "gzip", COMPRESSED),
        new Magic("BZh", "bzip2", COMPRESSED),
        new Magic("\u0028\u00b5\u002f\u00fd", "zstd", COMPRESSED),
        new Magic("\u00fd7zXZ\u0000", "xz", COMPRESSED),
        new Magic("Obj\u0001", "Avro", "its blocks end with a marker that is random for each file, so nothing"
            + " repeats; write its records as lines"),
        new Magic("PAR1", "Parquet", BLOCKS),
        new Magic("ORC", "ORC", BLOCKS),
        new Magic("SEQ\u0006", "a SequenceFile", "its sync markers are random for each file, so nothing repeats;"
            + " write its records as lines"));

    /** The longest magic in bytes. */
    static final int LONGEST = 6;

    private Format() {
    }

    /** Refuses a file whose first bytes, {@link #LONGEST} or all, are those of such a format. */
    static void check(byte[] first, int length, String name) throws Refused {
        String start = new String(first, 0, Math.min(length, LONGEST), StandardCharsets.ISO_8859_1);
        for (Magic magic : MAGICS) {
            if (start.startsWith(magic.bytes)) {
                throw new Refused(name + " is " + magic.name + ": " + magic.reason);
            }
        }
    }
}
