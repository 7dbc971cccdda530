package onefold.incremental.input;

import java.io.Closeable;
import java.io.IOException;
import onefold.incremental.Refused;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Records;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.util.LineReader;

/**
 * The records of a split as text, as Hadoop's text input has them: without delimiters, and without
 * the byte order mark that a file may begin with.
 */
public final class TextRecords implements Closeable {
    private static final int BUFFER = 64 << 10;

    private final SplitRef split;
    private final LineReader reader;
    /** Bytes of the split read so far, and those before the record read last. */
    private long read;
    private long start;

    /** Opens the split; refuses records of one length, which are not text. */
    public TextRecords(Configuration conf, SplitRef split, Records records) throws IOException {
        this.split = split;
        reader = switch (records.kind()) {
            case LINES -> new LineReader(split.open(conf), BUFFER);
            case DELIMITER -> new LineReader(split.open(conf), BUFFER, records.delimiter());
            case LENGTH -> throw new Refused(split.file() + " has records of " + records.length()
                + " bytes each, expected lines or records with a delimiter");
        };
    }

    /** Reads the next record into {@code record}; false if there is none. */
    public boolean next(Text record) throws IOException {
        start = read;
        int length = reader.readLine(record);
        read += length;
        if (length > 0 && start == 0 && split.position() == 0) {
            dropByteOrderMark(record);
        }
        return length > 0;
    }

    private static void dropByteOrderMark(Text record) {
        byte[] bytes = record.getBytes();
        boolean hasMark = record.getLength() >= 3
            && bytes[0] == (byte) 0xef && bytes[1] == (byte) 0xbb && bytes[2] == (byte) 0xbf;
        if (hasMark) {
            record.set(record.copyBytes(), 3, record.getLength() - 3);
        }
    }

    /** Where in the data set's file the record read last begins. */
    public long position() {
        return split.position() + start;
    }

    /** How much of the split is read, 0 to 1. */
    public float progress() {
        return (float) read / split.length();
    }

    @Override
    public void close() throws IOException {
        reader.close();
    }
}
