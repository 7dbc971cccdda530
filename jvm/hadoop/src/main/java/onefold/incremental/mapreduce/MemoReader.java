package onefold.incremental.mapreduce;

import java.io.IOException;
import onefold.incremental.input.TextRecords;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.lib.input.KeyValueLineRecordReader;

/** The records of a split as the job's input format would have them, with offsets that are watched. */
final class MemoReader {
    private final TextRecords records;
    private final MemoSplit.Item item;
    private final Shape.Input input;
    private final byte separator;
    private final Looked looked;
    private final Text read = new Text();
    private long count;

    MemoReader(JobConf job, MemoSplit.Item item, Looked looked) throws IOException {
        records = new TextRecords(job, item.piece());
        input = job.getEnum(Shape.INPUT, Shape.Input.TEXT);
        separator = (byte) job.get(KeyValueLineRecordReader.KEY_VALUE_SEPARATOR, "\t").charAt(0);
        this.item = item;
        this.looked = looked;
    }

    Object newKey() {
        return input == Shape.Input.KEY_VALUE ? new Text() : new WatchedOffset(looked);
    }

    Object newValue() {
        return input == Shape.Input.FIXED_LENGTH ? new BytesWritable() : new Text();
    }

    /** Reads a record into {@code key} and {@code value}; false if there is none. */
    boolean next(Object key, Object value) throws IOException {
        if (!records.next(input == Shape.Input.TEXT ? (Text) value : read)) {
            return false;
        }
        count++;
        switch (input) {
            case KEY_VALUE -> {
                int at = KeyValueLineRecordReader.findSeparator(read.getBytes(), 0, read.getLength(), separator);
                KeyValueLineRecordReader.setKeyValue((Text) key, (Text) value, read.getBytes(), read.getLength(), at);
            }
            case FIXED_LENGTH -> {
                ensureWhole();
                ((BytesWritable) value).set(read.getBytes(), 0, read.getLength());
                ((WatchedOffset) key).set(records.position());
            }
            case TEXT -> ((WatchedOffset) key).set(records.position());
        }
        return true;
    }

    /** Fails at a part of a record, as Hadoop's FixedLengthInputFormat does. */
    private void ensureWhole() throws IOException {
        int expected = item.piece().records().length();
        if (read.getLength() != expected) {
            throw new IOException(item.split().file() + " ends with a record of " + read.getLength() + " bytes at "
                + records.position() + ", expected " + expected);
        }
    }

    /** Reads what the mapper left, and fails if the split is not what was planned. */
    void finish() throws IOException {
        records.finish();
    }

    long count() {
        return count;
    }

    float progress() {
        return records.progress();
    }

    void close() throws IOException {
        records.close();
    }
}
