package onefold.incremental.mapreduce;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/** The planned splits of a job. {@link MemoMapper} reads them itself, so the reader has nothing. */
public final class MemoInputFormat extends InputFormat<Object, Object> {
    @Override
    public List<InputSplit> getSplits(JobContext job) throws IOException {
        return List.copyOf(Session.splits(job.getConfiguration()));
    }

    @Override
    public RecordReader<Object, Object> createRecordReader(InputSplit split, TaskAttemptContext context) {
        return new RecordReader<>() {
            @Override
            public void initialize(InputSplit split, TaskAttemptContext context) {
            }

            @Override
            public boolean nextKeyValue() {
                return false;
            }

            @Override
            public Object getCurrentKey() {
                return null;
            }

            @Override
            public Object getCurrentValue() {
                return null;
            }

            @Override
            public float getProgress() {
                return 0;
            }

            @Override
            public void close() {
            }
        };
    }
}
