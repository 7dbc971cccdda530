package onefold.incremental.mapreduce;

import java.io.IOException;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** {@link MemoInputFormat} in Hadoop's old API. */
public final class OldMemoInputFormat implements InputFormat<Object, Object> {
    @Override
    public InputSplit[] getSplits(JobConf job, int wanted) throws IOException {
        return Session.splits(job).toArray(InputSplit[]::new);
    }

    @Override
    public RecordReader<Object, Object> getRecordReader(InputSplit split, JobConf job, Reporter reporter) {
        return new RecordReader<>() {
            @Override
            public boolean next(Object key, Object value) {
                return false;
            }

            @Override
            public Object createKey() {
                return null;
            }

            @Override
            public Object createValue() {
                return null;
            }

            @Override
            public long getPos() {
                return 0;
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
