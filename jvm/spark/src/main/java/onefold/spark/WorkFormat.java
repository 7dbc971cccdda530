package onefold.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * The source of an operation's tasks, through which Spark asks for the plan when an action is called.
 *
 * <p>Public because Spark makes it by reflection. Its values are {@link Frames}.
 */
public final class WorkFormat extends InputFormat<NullWritable, byte[]> {
    private static final Map<String, Planner> PLANNERS = new ConcurrentHashMap<>();

    /** Says on the driver what there is to do. */
    interface Planner {
        List<Batch> plan() throws IOException;
    }

    static void register(Spec spec, Planner planner) {
        PLANNERS.put(spec.id(), planner);
    }

    static void forget(Spec spec) {
        PLANNERS.remove(spec.id());
    }

    @Override
    public List<InputSplit> getSplits(JobContext job) throws IOException {
        Planner planner = PLANNERS.get(Spec.get(job.getConfiguration()).id());
        if (planner == null) {
            throw new IOException("this incremental operation belongs to an application that has ended");
        }
        return new ArrayList<>(planner.plan());
    }

    @Override
    public RecordReader<NullWritable, byte[]> createRecordReader(InputSplit split, TaskAttemptContext context) {
        return new WorkReader();
    }
}
