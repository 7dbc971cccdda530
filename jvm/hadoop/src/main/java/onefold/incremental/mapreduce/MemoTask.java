package onefold.incremental.mapreduce;

import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Optional;
import onefold.incremental.memo.DamagedEntry;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;

/** What a map task does with its splits, in either API. */
final class MemoTask {
    /** The group of counters that tell what was done. */
    static final String GROUP = "onefold";

    private final JobConf job;
    private final Api api;
    private final Memo memo;
    private final JobKey key;
    private final Codec codec;
    private final Looked looked = new Looked();
    private boolean hasTold;

    MemoTask(JobConf job, Api api) throws IOException {
        this.job = job;
        this.api = api;
        memo = Memo.at(job, new Path(job.get(Shape.MEMO)));
        key = JobKey.withId(job.get(Shape.KEY));
        codec = new Codec(job);
    }

    void run(List<MemoSplit.Item> items) throws IOException, InterruptedException {
        for (MemoSplit.Item item : items) {
            switch (item.action()) {
                case REPLAY -> {
                    if (!item.piece().startsWithMark(job) && replay(item)) {
                        api.count(GROUP, "splits replayed", 1);
                    } else {
                        compute(item);
                    }
                }
                case COMPUTE -> compute(item);
                case VERIFY -> verify(item);
            }
            api.progress();
        }
    }

    /** Emits what the memo has; false if it has nothing that can be used. */
    private boolean replay(MemoSplit.Item item) throws IOException, InterruptedException {
        Optional<InputStream> found = read(item);
        if (found.isEmpty()) {
            return false;
        }
        Codec.Decoder decoder = codec.new Decoder();
        try (InputStream payload = found.get()) {
            Payload.read(payload, new Payload.Reader() {
                @Override
                public void pair(byte[] keyBytes, int keyLength, byte[] value, int valueLength)
                        throws IOException, InterruptedException {
                    decoder.key(keyBytes, 0, keyLength);
                    decoder.value(value, 0, valueLength);
                    api.emit(decoder.key, decoder.value);
                }

                @Override
                public void counter(String group, String name, long value) {
                    api.count(group, name, value);
                }
            });
        }
        return true;
    }

    private Optional<InputStream> read(MemoSplit.Item item) throws IOException {
        try {
            Optional<InputStream> found = memo.read(key, item.split().fingerprint(), Payload.KIND);
            if (found.isEmpty()) {
                System.err.println("onefold: memo entry " + item.split().fingerprint() + " is gone; computing its split");
                api.count(GROUP, "entries missing", 1);
            }
            return found;
        } catch (DamagedEntry e) {
            System.err.println("onefold: " + e.getMessage() + "; computing its split and replacing it");
            api.count(GROUP, "entries damaged", 1);
            memo.delete(key, item.split().fingerprint());
            return Optional.empty();
        }
    }

    private void compute(MemoSplit.Item item) throws IOException, InterruptedException {
        Counts counts = new Counts();
        try (Kept kept = new Kept(memo, key, item.split().fingerprint())) {
            map(item, counts, kept::pair);
            if (looked.first() != null) {
                tell();
                api.count(GROUP, "splits not kept: the mapper looks at " + looked.first(), 1);
            } else if (!kept.commit(counts)) {
                api.count(GROUP, "splits not kept: the memo cannot be written", 1);
            }
        }
        api.count(GROUP, "splits computed", 1);
    }

    private void tell() {
        if (!hasTold) {
            System.err.println("onefold: results are not kept: the mapper looks at " + looked.first()
                + ", which does not depend on the bytes of the split alone");
            hasTold = true;
        }
    }

    /** Computes a split whose result is kept, and compares. */
    private void verify(MemoSplit.Item item) throws IOException, InterruptedException {
        Bag expected = new Bag();
        Counts expectedCounts = new Counts();
        Optional<InputStream> found = read(item);
        if (found.isEmpty()) {
            compute(item);
            return;
        }
        try (InputStream payload = found.get()) {
            Payload.read(payload, new Payload.Reader() {
                @Override
                public void pair(byte[] keyBytes, int keyLength, byte[] value, int valueLength) {
                    expected.add(keyBytes, keyLength, value, valueLength);
                }

                @Override
                public void counter(String group, String name, long value) {
                    expectedCounts.add(new Counts.Name(group, name), value);
                }
            });
        }
        Bag computed = new Bag();
        Counts counts = new Counts();
        map(item, counts, computed::add);
        if (!computed.equals(expected) || !counts.values().equals(expectedCounts.values())) {
            throw new IOException("onefold: the memo and the mapper differ for the split at " + item.split().position()
                + " of " + item.split().file() + ": kept are " + expected + ", computed are " + computed
                + ". The mapper depends on more than its input and the job's jars and properties;"
                + " run the job without the memo, and delete " + memo.folder() + "/entries/" + key.id());
        }
        api.count(GROUP, "splits verified", 1);
    }

    /** Takes serialized pairs. */
    private interface RawSink {
        void put(byte[] key, int keyLength, byte[] value, int valueLength);
    }

    /** Runs mapper and combiner over a split, and gives what comes out to the job and to {@code raw}. */
    private void map(MemoSplit.Item item, Counts counts, RawSink raw) throws IOException, InterruptedException {
        looked.clear();
        if (item.piece().startsWithMark(job)) {
            looked.at("the byte order mark of its file");
        }
        WatchedConf conf = new WatchedConf(job, looked);
        Codec.Encoder encoder = codec.new Encoder();
        Api.Sink last = (outKey, outValue) -> {
            Object plainKey = Codec.plain(outKey);
            Object plainValue = Codec.plain(outValue);
            encoder.encode(plainKey, plainValue);
            raw.put(encoder.key.getData(), encoder.key.getLength(), encoder.value.getData(), encoder.value.getLength());
            api.emit(plainKey, plainValue);
        };
        if (!api.hasCombiner()) {
            api.map(item, conf, looked, last, counts);
        } else {
            Pairs pairs = new Pairs();
            Codec.Encoder first = codec.new Encoder();
            api.map(item, conf, looked, (outKey, outValue) -> {
                first.encode(Codec.plain(outKey), Codec.plain(outValue));
                pairs.add(first.key.getData(), first.key.getLength(), first.value.getData(), first.value.getLength());
                if (pairs.isFull()) {
                    combine(pairs, conf, last);
                }
            }, counts);
            combine(pairs, conf, last);
        }
        counts.values().forEach((name, value) -> api.count(name.group(), name.name(), value));
    }

    private void combine(Pairs pairs, WatchedConf conf, Api.Sink last) throws IOException, InterruptedException {
        if (!pairs.isEmpty()) {
            api.combine(pairs.sorted(job.getOutputKeyComparator()), codec, conf, last);
            pairs.clear();
        }
    }
}
