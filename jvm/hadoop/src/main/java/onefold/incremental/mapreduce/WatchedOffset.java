package onefold.incremental.mapreduce;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import org.apache.hadoop.io.LongWritable;

/** The key of text input: the offset of a line, and whether the mapper looks at it. */
final class WatchedOffset extends LongWritable {
    private static final String OFFSET = "the offset of a record";

    private final Looked looked;

    WatchedOffset(Looked looked) {
        this.looked = looked;
    }

    /** The offset as the job's own class would have it, which counts as a look. */
    LongWritable plain() {
        return new LongWritable(get());
    }

    @Override
    public long get() {
        looked.at(OFFSET);
        return super.get();
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        looked.at(OFFSET);
        super.readFields(in);
    }

    @Override
    public void write(DataOutput out) throws IOException {
        looked.at(OFFSET);
        super.write(out);
    }

    @Override
    public boolean equals(Object other) {
        looked.at(OFFSET);
        return super.equals(other);
    }

    @Override
    public int hashCode() {
        looked.at(OFFSET);
        return super.hashCode();
    }

    @Override
    public int compareTo(LongWritable other) {
        looked.at(OFFSET);
        return super.compareTo(other);
    }

    @Override
    public String toString() {
        looked.at(OFFSET);
        return super.toString();
    }
}
