package onefold.spark;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import onefold.incremental.files.Leases;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;

/** A memo as the driver uses it: with a lease until the application ends. */
final class MemoUse {
    /** One lease for each memo, since an RDD may be computed again at any time. */
    private static final Map<String, Held> HELD = new HashMap<>();

    private record Held(Leases.Lease lease, Set<String> names) {
    }

    private final Memo memo;
    private final JobKey key;
    private final Memo.Found found;

    private MemoUse(Memo memo, JobKey key, Memo.Found found) {
        this.memo = memo;
        this.key = key;
        this.found = found;
    }

    /** Looks at the entries of a job, and relies on all of them. Fails if the memo cannot be written. */
    static MemoUse open(JavaSparkContext context, Spec spec, String records) throws IOException {
        Configuration conf = context.hadoopConfiguration();
        Memo memo = spec.open(conf);
        memo.ensureWritable();
        JobKey key = spec.key(records);
        synchronized (HELD) {
            try (Leases.Lease all = memo.lease()) {
                Memo.Found found = memo.find(key);
                Held held = held(context, memo);
                found.entries().keySet().forEach(split -> held.names.add(Memo.name(key, split)));
                held.lease.narrow(held.names);
                return new MemoUse(memo, key, found);
            }
        }
    }

    private static Held held(JavaSparkContext context, Memo memo) throws IOException {
        String folder = memo.folder().toString();
        Held known = HELD.get(folder);
        if (known != null) {
            return known;
        }
        Held made = new Held(memo.lease(), new HashSet<>());
        HELD.put(folder, made);
        context.sc().addSparkListener(new SparkListener() {
            @Override
            public void onApplicationEnd(SparkListenerApplicationEnd end) {
                giveBack(folder, made);
            }
        });
        return made;
    }

    private static void giveBack(String folder, Held held) {
        synchronized (HELD) {
            HELD.remove(folder, held);
        }
        try {
            held.lease.close();
        } catch (IOException e) {
            System.err.println("onefold: cannot give back a lease on the memo " + folder + ": " + e.getMessage()
                + "; it ends by itself");
        }
    }

    Memo memo() {
        return memo;
    }

    JobKey key() {
        return key;
    }

    /** Bytes of each entry that is there. */
    Map<Fingerprint, Long> entries() {
        return found.entries();
    }

    /** Says how many of the splits have no result but one that this release cannot read. */
    void sayOthers(String job, List<SplitRef> splits) {
        long others = found.inOthersOnly(splits.stream().map(SplitRef::fingerprint).toList());
        if (others > 0) {
            System.err.println("onefold: " + job + ": the memo " + memo.folder() + " has results of " + others
                + " splits in the format of another release of onefold only");
        }
    }
}
