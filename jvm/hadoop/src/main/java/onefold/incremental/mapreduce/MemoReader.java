package onefold.incremental.mapreduce;

import java.io.IOException;
import onefold.incremental.input.TextRecords;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.lib.input.KeyValueLineRecordReader;

/** The records of a split as the job's input format would have them, with offsets that are watched. */
final class MemoReader {
    private final TextRecords records;
    private final boolean isKeyValue;
    private final byte separator;
    private final Looked looked;
    private final Text line = new Text();
    private long count;

    MemoReader(JobConf job, MemoSplit.Item item, Looked looked) throws IOException {
        records = new TextRecords(job, item.split(), item.records());
        isKeyValue = job.getBoolean(Shape.KEY_VALUE, false);
        separator = (byte) job.get(KeyValueLineRecordReader.KEY_VALUE_SEPARATOR, "\t").charAt(0);
        this.looked = looked;
    }

    Object newKey() {
        return isKeyValue ? new Text() : new WatchedOffset(looked);
    }

    Text newValue() {
        return new Text();
    }

    /** Reads a record into {@code key} and {@code value}; false if there is none. */
    boolean next(Object key, Text value) throws IOException {
        if (!records.next(isKeyValue ? line : value)) {
            return false;
        }
        count++;
        if (isKeyValue) {
            int at = KeyValueLineRecordReader.findSeparator(line.getBytes(), 0, line.getLength(), separator);
            KeyValueLineRecordReader.setKeyValue((Text) key, value, line.getBytes(), line.getLength(), at);
        } else {
            ((WatchedOffset) key).set(records.position());
        }
        return true;
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
