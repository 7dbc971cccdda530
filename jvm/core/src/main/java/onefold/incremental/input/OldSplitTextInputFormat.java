package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.layout.Version;
import onefold.incremental.split.Records;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** {@link SplitTextInputFormat} in Hadoop's old API. */
public final class OldSplitTextInputFormat extends FileInputFormat<LongWritable, Text> {
    @Override
    public InputSplit[] getSplits(JobConf job, int wanted) throws IOException {
        InputFiles files = new InputFiles(job, job.getBoolean(INPUT_DIR_RECURSIVE, false));
        Hosts hosts = new Hosts(job);
        List<InputSplit> splits = new ArrayList<>();
        for (Path file : files.list(getInputPaths(job))) {
            Version version = files.version(file);
            for (SplitRef split : version.splits()) {
                splits.add(new Split(split, version.manifest().records(), hosts.of(split)));
            }
        }
        return splits.toArray(InputSplit[]::new);
    }

    @Override
    public RecordReader<LongWritable, Text> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
            throws IOException {
        Split content = (Split) split;
        return new Reader(content, new TextRecords(job, content.split(), content.records()));
    }

    /** A split of a job in Hadoop's old API. */
    public static final class Split extends FileSplit {
        private SplitRef split;
        private Records records;

        /** For Hadoop, which fills it by {@link #readFields}. */
        public Split() {
        }

        public Split(SplitRef split, Records records, String[] hosts) {
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

    private record Reader(Split split, TextRecords records) implements RecordReader<LongWritable, Text> {
        @Override
        public boolean next(LongWritable key, Text value) throws IOException {
            boolean isThere = records.next(value);
            key.set(records.position());
            return isThere;
        }

        @Override
        public LongWritable createKey() {
            return new LongWritable();
        }

        @Override
        public Text createValue() {
            return new Text();
        }

        @Override
        public long getPos() {
            return records.position();
        }

        @Override
        public float getProgress() {
            return records.progress();
        }

        @Override
        public void close() throws IOException {
            records.close();
        }
    }
}
