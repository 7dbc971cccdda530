package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
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
        Hosts hosts = new Hosts(job);
        List<InputSplit> splits = new ArrayList<>();
        boolean isRecursive = job.getBoolean(INPUT_DIR_RECURSIVE, false);
        for (Piece piece : Piece.all(job, isRecursive, getInputPaths(job))) {
            splits.add(new Split(piece, hosts.of(piece.split())));
        }
        return splits.toArray(InputSplit[]::new);
    }

    @Override
    public RecordReader<LongWritable, Text> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
            throws IOException {
        return new Reader(new TextRecords(job, ((Split) split).piece));
    }

    /** A split of a job in Hadoop's old API. */
    public static final class Split extends FileSplit {
        private Piece piece;

        /** For Hadoop, which fills it by {@link #readFields}. */
        public Split() {
        }

        Split(Piece piece, String[] hosts) {
            super(piece.split().file(), piece.split().offset(), piece.split().length(), hosts);
            this.piece = piece;
        }

        @Override
        public void write(DataOutput out) throws IOException {
            super.write(out);
            piece.write(out);
        }

        @Override
        public void readFields(DataInput in) throws IOException {
            super.readFields(in);
            piece = Piece.read(in);
        }
    }

    private record Reader(TextRecords records) implements RecordReader<LongWritable, Text> {
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
