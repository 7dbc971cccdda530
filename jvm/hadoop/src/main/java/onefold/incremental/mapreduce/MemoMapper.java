package onefold.incremental.mapreduce;

import java.io.IOException;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapreduce.Counter;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.StatusReporter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.counters.GenericCounter;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.map.WrappedMapper;
import org.apache.hadoop.mapreduce.lib.reduce.WrappedReducer;
import org.apache.hadoop.mapreduce.task.MapContextImpl;
import org.apache.hadoop.mapreduce.task.ReduceContextImpl;
import org.apache.hadoop.util.ReflectionUtils;

/** Stands for the job's mapper in Hadoop's new API. */
public final class MemoMapper extends Mapper<Object, Object, Object, Object> {
    @Override
    public void run(Context context) throws IOException, InterruptedException {
        JobConf job = (JobConf) context.getConfiguration();
        MemoSplit split = (MemoSplit) context.getInputSplit();
        new MemoTask(job, new NewApi(context, job)).run(split.items());
    }

    private record NewApi(Context context, JobConf job) implements Api {
        @Override
        public void emit(Object key, Object value) throws IOException, InterruptedException {
            context.write(key, value);
        }

        @Override
        public void count(String group, String name, long value) {
            context.getCounter(group, name).increment(value);
        }

        @Override
        public void progress() {
            context.progress();
        }

        @Override
        @SuppressWarnings("unchecked")
        public void map(MemoSplit.Item item, WatchedConf conf, Looked looked, Sink output, Counts counts)
                throws IOException, InterruptedException {
            MemoReader records = new MemoReader(job, item, looked);
            Counts.Own<Counter> counters = new Counts.Own<>(name -> new GenericCounter(name.name(), name.name()));
            WatchedContext watched = new WatchedContext(conf, context, new Reader(records), new Writer(output),
                new Reporter(counters, context, records), item.split(), looked);
            Class<?> type = job.getClass(Shape.MAPPER, Mapper.class);
            Mapper<Object, Object, Object, Object> mapper =
                (Mapper<Object, Object, Object, Object>) ReflectionUtils.newInstance(type, conf);
            try {
                mapper.run(new WrappedMapper<Object, Object, Object, Object>().getMapContext(watched));
                records.finish();
            } finally {
                records.close();
            }
            counters.addTo(counts, Counter::getValue);
            counts.add(Counts.RECORDS, records.count());
        }

        @Override
        public boolean hasCombiner() {
            return job.get(COMBINE_CLASS_ATTR) != null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void combine(RawKeyValueIterator sorted, Codec codec, WatchedConf conf, Sink output)
                throws IOException, InterruptedException {
            Class<?> type = job.getClass(COMBINE_CLASS_ATTR, null);
            Reducer<Object, Object, Object, Object> combiner =
                (Reducer<Object, Object, Object, Object>) ReflectionUtils.newInstance(type, conf);
            // how often a combiner runs is nobody's business, so its counts are dropped
            Counts.Own<Counter> counters = new Counts.Own<>(name -> new GenericCounter(name.name(), name.name()));
            ReduceContextImpl<Object, Object, Object, Object> combining = new ReduceContextImpl<>(conf,
                context.getTaskAttemptID(), sorted, new GenericCounter(), new GenericCounter(), new Writer(output), null,
                new Reporter(counters, context, null), (RawComparator<Object>) job.getCombinerKeyGroupingComparator(),
                (Class<Object>) codec.keyClass(), (Class<Object>) codec.valueClass());
            combiner.run(new WrappedReducer<Object, Object, Object, Object>().getReducerContext(combining));
        }
    }

    private static final String COMBINE_CLASS_ATTR = org.apache.hadoop.mapreduce.MRJobConfig.COMBINE_CLASS_ATTR;

    private static final class Reader extends RecordReader<Object, Object> {
        private final MemoReader records;
        private final Object key;
        private final Object value;

        Reader(MemoReader records) {
            this.records = records;
            key = records.newKey();
            value = records.newValue();
        }

        @Override
        public void initialize(InputSplit split, TaskAttemptContext context) {
        }

        @Override
        public boolean nextKeyValue() throws IOException {
            return records.next(key, value);
        }

        @Override
        public Object getCurrentKey() {
            return key;
        }

        @Override
        public Object getCurrentValue() {
            return value;
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

    private static final class Writer extends RecordWriter<Object, Object> {
        private final Api.Sink output;

        Writer(Api.Sink output) {
            this.output = output;
        }

        @Override
        public void write(Object key, Object value) throws IOException, InterruptedException {
            output.put(key, value);
        }

        @Override
        public void close(TaskAttemptContext context) {
        }
    }

    private static final class Reporter extends StatusReporter {
        private final Counts.Own<Counter> counters;
        private final TaskAttemptContext task;
        private final MemoReader records;

        Reporter(Counts.Own<Counter> counters, TaskAttemptContext task, MemoReader records) {
            this.counters = counters;
            this.task = task;
            this.records = records;
        }

        @Override
        public Counter getCounter(Enum<?> counter) {
            return counters.get(counter);
        }

        @Override
        public Counter getCounter(String group, String name) {
            return counters.get(group, name);
        }

        @Override
        public void progress() {
            task.progress();
        }

        @Override
        public float getProgress() {
            return records == null ? 0 : records.progress();
        }

        @Override
        public void setStatus(String status) {
            task.setStatus(status);
        }
    }

    /** The job's mapper sees the split's records, and is seen when it looks at the task. */
    private static final class WatchedContext extends MapContextImpl<Object, Object, Object, Object> {
        private final Looked looked;

        WatchedContext(WatchedConf conf, Context task, Reader reader, Writer writer, Reporter reporter,
                SplitRef split, Looked looked) {
            super(conf, task.getTaskAttemptID(), reader, writer, task.getOutputCommitter(), reporter,
                // what the job's input format would give, which some mappers cast it to
                new FileSplit(split.file(), split.offset(), split.length(), new String[0]));
            this.looked = looked;
        }

        private <T> T watched(String what, T value) {
            // the constructors of the superclasses ask too
            if (looked != null) {
                looked.at(what);
            }
            return value;
        }

        @Override
        public InputSplit getInputSplit() {
            return watched("its input split", super.getInputSplit());
        }

        @Override
        public TaskAttemptID getTaskAttemptID() {
            return watched("the id of its task", super.getTaskAttemptID());
        }

        @Override
        public JobID getJobID() {
            return watched("the id of its job", super.getJobID());
        }

        @Override
        public OutputCommitter getOutputCommitter() {
            return watched("the job's output", super.getOutputCommitter());
        }

        @Override
        public float getProgress() {
            return watched("the task's progress", super.getProgress());
        }
    }
}
