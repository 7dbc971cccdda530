package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Records;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/** A split of a job in Hadoop's new API. */
public final class ContentSplit extends FileSplit {
    private SplitRef split;
    private Records records;

    /** For Hadoop, which fills it by {@link #readFields}. */
    public ContentSplit() {
    }

    public ContentSplit(SplitRef split, Records records, String[] hosts) {
        super(split.file(), split.offset(), split.length(), hosts);
        this.split = split;
        this.records = records;
    }

    public SplitRef split() {
        return split;
    }

    public Records records() {
        return records;
    }

    @Override
    public void write(DataOutput out) throws IOException {
        super.write(out);
        SplitCodec.write(out, split);
        SplitCodec.writeRecords(out, records);
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        super.readFields(in);
        split = SplitCodec.read(in);
        records = SplitCodec.readRecords(in);
    }
}
