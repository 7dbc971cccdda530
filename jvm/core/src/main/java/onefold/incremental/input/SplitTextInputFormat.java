package onefold.incremental.input;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;

/**
 * Text input whose splits are those of the content, in Hadoop's new API.
 *
 * <p>Takes the place of TextInputFormat: the key is where the record begins in the file, the value
 * the record, whose bytes need not be text if records have one length. Files with and without a
 * manifest, and files with shared splits, may be mixed.
 */
public final class SplitTextInputFormat extends FileInputFormat<LongWritable, Text> {
    @Override
    public List<InputSplit> getSplits(JobContext job) throws IOException {
        Configuration conf = job.getConfiguration();
        Hosts hosts = new Hosts(conf);
        List<InputSplit> splits = new ArrayList<>();
        for (Piece piece : Piece.all(conf, getInputDirRecursive(job), getInputPaths(job))) {
            splits.add(new ContentSplit(piece, hosts.of(piece.split())));
        }
        return splits;
    }

    @Override
    public RecordReader<LongWritable, Text> createRecordReader(InputSplit split, TaskAttemptContext context) {
        return new Reader();
    }

    private static final class Reader extends RecordReader<LongWritable, Text> {
        private final LongWritable key = new LongWritable();
        private final Text value = new Text();
        private TextRecords records;

        @Override
        public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
            records = new TextRecords(context.getConfiguration(), ((ContentSplit) split).piece());
        }

        @Override
        public boolean nextKeyValue() throws IOException {
            boolean isThere = records.next(value);
            key.set(records.position());
            return isThere;
        }

        @Override
        public LongWritable getCurrentKey() {
            return key;
        }

        @Override
        public Text getCurrentValue() {
            return value;
        }

        @Override
        public float getProgress() {
            return records.progress();
        }

        @Override
        public void close() throws IOException {
            if (records != null) {
                records.close();
            }
        }
    }
}
