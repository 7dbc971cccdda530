package onefold.incremental.mapreduce;

import java.io.IOException;
import org.apache.hadoop.mapred.RawKeyValueIterator;

/** A map task in one of Hadoop's two APIs. */
interface Api {
    /** Takes a key and a value. */
    interface Sink {
        void put(Object key, Object value) throws IOException, InterruptedException;
    }

    /** Gives the job's shuffle a key and a value. */
    void emit(Object key, Object value) throws IOException, InterruptedException;

    /** Adds to a counter of the task. */
    void count(String group, String name, long value);

    /** Tells Hadoop that the task is alive. */
    void progress();

    /** Runs the job's mapper over the records of a split, and counts in {@code counts}. */
    void map(MemoSplit.Item item, WatchedConf conf, Looked looked, Sink output, Counts counts)
        throws IOException, InterruptedException;

    /** Whether the job has a combiner. */
    boolean hasCombiner();

    /** Runs the job's combiner over sorted pairs. */
    void combine(RawKeyValueIterator sorted, Codec codec, WatchedConf conf, Sink output)
        throws IOException, InterruptedException;
}
