package onefold.incremental.input;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Records;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.util.LineReader;

/**
 * The records of a split as Hadoop's text input has them: without delimiters, and without the byte
 * order mark that a file may begin with. Records of one length are as they are, and the last may be
 * shorter.
 */
public final class TextRecords implements Closeable {
    private static final int BUFFER = 64 << 10;

    /** Reads the next record into {@code record}, and returns how many bytes it took, or 0. */
    private interface Source extends Closeable {
        int next(Text record) throws IOException;
    }

    private final SplitRef split;
    private final Source source;
    private final boolean isText;
    /** Bytes of the split read so far, and those before the record read last. */
    private long read;
    private long start;

    /** Opens the split. */
    public TextRecords(Configuration conf, Piece piece) throws IOException {
        split = piece.split();
        Records records = piece.records();
        isText = records.kind() != Records.Kind.LENGTH;
        source = switch (records.kind()) {
            case LINES -> delimited(new LineReader(split.open(conf), BUFFER));
            case DELIMITER -> delimited(new LineReader(split.open(conf), BUFFER, records.delimiter()));
            case LENGTH -> ofLength(new BufferedInputStream(split.open(conf), BUFFER), records.length());
        };
    }

    private static Source delimited(LineReader reader) {
        return new Source() {
            @Override
            public int next(Text record) throws IOException {
                return reader.readLine(record);
            }

            @Override
            public void close() throws IOException {
                reader.close();
            }
        };
    }

    private static Source ofLength(InputStream in, int length) {
        return new Source() {
            @Override
            public int next(Text record) throws IOException {
                byte[] bytes = in.readNBytes(length);
                record.set(bytes);
                return bytes.length;
            }

            @Override
            public void close() throws IOException {
                in.close();
            }
        };
    }

    /** Reads the next record into {@code record}; false if there is none. */
    public boolean next(Text record) throws IOException {
        start = read;
        int length = source.next(record);
        read += length;
        if (isText && length > 0 && start == 0 && split.position() == 0) {
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

    /** Reads what is left, so that the split is known to be what was planned. */
    public void finish() throws IOException {
        Text record = new Text();
        while (source.next(record) > 0) {
            // the stream looks at the bytes
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
        source.close();
    }
}
