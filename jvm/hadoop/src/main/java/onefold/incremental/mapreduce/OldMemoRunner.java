package onefold.incremental.mapreduce;

import java.io.IOException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.mapred.Counters;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapRunnable;
import org.apache.hadoop.mapred.MapRunner;
import org.apache.hadoop.mapred.OutputCollector;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reducer;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.util.ReflectionUtils;

/** Stands for the runner of the job's mapper in Hadoop's old API. */
public final class OldMemoRunner implements MapRunnable<Object, Object, Object, Object> {
    private JobConf job;

    @Override
    public void configure(JobConf conf) {
        job = conf;
    }

    @Override
    public void run(RecordReader<Object, Object> input, OutputCollector<Object, Object> output, Reporter reporter)
            throws IOException {
        MemoSplit split = (MemoSplit) reporter.getInputSplit();
        try {
            new MemoTask(job, new OldApi(job, output, reporter)).run(split.items());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    /** Gives {@code output} what the old API, which cannot be interrupted, puts out. */
    private static OutputCollector<Object, Object> collector(Api.Sink output) {
        return (key, value) -> {
            try {
                output.put(key, value);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("interrupted", e);
            }
        };
    }

    private record OldApi(JobConf job, OutputCollector<Object, Object> output, Reporter reporter) implements Api {
        @Override
        public void emit(Object key, Object value) throws IOException {
            output.collect(key, value);
        }

        @Override
        public void count(String group, String name, long value) {
            reporter.incrCounter(group, name, value);
        }

        @Override
        public void progress() {
            reporter.progress();
        }

        @Override
        public void map(MemoSplit.Item item, WatchedConf conf, Looked looked, Sink sink, Counts counts)
                throws IOException {
            MemoReader records = new MemoReader(job, item, looked);
            Counts.Own<Counters.Counter> counters = new Counts.Own<>(OldMemoRunner::counter);
            MapRunner<Object, Object, Object, Object> runner = new MapRunner<>();
            runner.configure(conf);
            try {
                runner.run(new Reader(records, looked), collector(sink), new Watched(counters, reporter, item.split(), looked));
                records.finish();
            } finally {
                records.close();
            }
            counters.addTo(counts, Counters.Counter::getValue);
            counts.add(Counts.RECORDS, records.count());
        }

        @Override
        public boolean hasCombiner() {
            return job.getCombinerClass() != null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void combine(RawKeyValueIterator sorted, Codec codec, WatchedConf conf, Sink sink) throws IOException {
            Reducer<Object, Object, Object, Object> combiner =
                (Reducer<Object, Object, Object, Object>) ReflectionUtils.newInstance(job.getCombinerClass(), conf);
            // how often a combiner runs is nobody's business, so its counts are dropped
            Reporter dropped = new Watched(new Counts.Own<>(OldMemoRunner::counter), reporter, null, new Looked());
            Groups groups = new Groups(sorted, codec.new Decoder(), job.getCombinerKeyGroupingComparator());
            while (groups.nextGroup()) {
                combiner.reduce(groups.key(), groups, collector(sink), dropped);
            }
            combiner.close();
        }
    }

    private static Counters.Counter counter(Counts.Name name) {
        return new Counters().findCounter(name.group(), name.name());
    }

    /** The values of one key after another, from sorted pairs. */
    private static final class Groups implements Iterator<Object> {
        private final RawKeyValueIterator sorted;
        private final Codec.Decoder decoder;
        private final RawComparator<?> comparator;
        private byte[] group = new byte[0];
        /** The pair at hand is there, and belongs to the group. */
        private boolean isThere;
        private boolean isOfGroup;

        Groups(RawKeyValueIterator sorted, Codec.Decoder decoder, RawComparator<?> comparator) throws IOException {
            this.sorted = sorted;
            this.decoder = decoder;
            this.comparator = comparator;
            isThere = sorted.next();
        }

        /** Leaves the rest of the group, and begins the next; false if there is none. */
        boolean nextGroup() throws IOException {
            while (isOfGroup) {
                advance();
            }
            if (!isThere) {
                return false;
            }
            DataInputBuffer key = sorted.getKey();
            group = java.util.Arrays.copyOfRange(key.getData(), key.getPosition(), key.getLength());
            decoder.key = null;
            decoder.key(group, 0, group.length);
            isOfGroup = true;
            return true;
        }

        Object key() {
            return decoder.key;
        }

        private void advance() throws IOException {
            isThere = sorted.next();
            DataInputBuffer key = sorted.getKey();
            isOfGroup = isThere && comparator.compare(group, 0, group.length,
                key.getData(), key.getPosition(), key.getLength() - key.getPosition()) == 0;
        }

        @Override
        public boolean hasNext() {
            return isOfGroup;
        }

        @Override
        public Object next() {
            if (!isOfGroup) {
                throw new NoSuchElementException();
            }
            try {
                DataInputBuffer value = sorted.getValue();
                decoder.value(value.getData(), value.getPosition(), value.getLength() - value.getPosition());
                Object next = decoder.value;
                advance();
                return next;
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
    }

    private record Reader(MemoReader records, Looked looked) implements RecordReader<Object, Object> {
        @Override
        public boolean next(Object key, Object value) throws IOException {
            return records.next(key, value);
        }

        @Override
        public Object createKey() {
            return records.newKey();
        }

        @Override
        public Object createValue() {
            return records.newValue();
        }

        @Override
        public long getPos() {
            looked.at("the position of its input");
            return 0;
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

    /** The job's mapper counts for the split, and is seen when it looks at the task. */
    private record Watched(Counts.Own<Counters.Counter> counters, Reporter task, SplitRef split, Looked looked)
            implements Reporter {
        @Override
        public void setStatus(String status) {
            task.setStatus(status);
        }

        @Override
        public Counters.Counter getCounter(Enum<?> counter) {
            return counters.get(counter);
        }

        @Override
        public Counters.Counter getCounter(String group, String name) {
            return counters.get(group, name);
        }

        @Override
        public void incrCounter(Enum<?> counter, long value) {
            counters.get(counter).increment(value);
        }

        @Override
        public void incrCounter(String group, String name, long value) {
            counters.get(group, name).increment(value);
        }

        @Override
        public InputSplit getInputSplit() {
            looked.at("its input split");
            if (split == null) {
                throw new UnsupportedOperationException("a combiner has no input split");
            }
            return new FileSplit(split.file(), split.offset(), split.length(), new String[0]);
        }

        @Override
        public float getProgress() {
            looked.at("the task's progress");
            return task.getProgress();
        }

        @Override
        public void progress() {
            task.progress();
        }
    }
}
