package onefold.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import onefold.incremental.Refused;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * Plans an operation whose results are those of its splits, in the order of the input.
 *
 * <p>A task has neighbours that are all replayed or all computed: one, or a few small ones.
 */
final class MapPlanner implements WorkFormat.Planner {
    /**
     * A task takes further splits until it has this many bytes of splits, or of entries, to read; fewer
     * if there would not be several tasks for each core.
     */
    private static final long ENOUGH = 16L << 20;
    private static final long TASKS_A_CORE = 3;
    private static final int MOST_ITEMS = 256;

    private final JavaSparkContext context;
    private final Job job;
    private Plan plan;

    MapPlanner(JavaSparkContext context, Job job) {
        this.context = context;
        this.job = job;
    }

    /** The plan, which is made if no action was called yet. */
    synchronized Plan report() throws IOException {
        if (plan == null) {
            plan();
        }
        return plan;
    }

    @Override
    public synchronized List<Batch> plan() throws IOException {
        long start = System.nanoTime();
        Inputs inputs = Inputs.read(job.conf(context), job.paths());
        String reason = job.reason();
        MemoUse use = null;
        if (job.spec().memo() != null) {
            try {
                use = MemoUse.open(context, job.spec(), inputs.records());
            } catch (Refused e) {
                throw e;
            } catch (IOException e) {
                reason = "the memo " + job.spec().memo() + " cannot be used: " + e.getClass().getSimpleName() + ": "
                    + e.getMessage();
            }
        }
        if (use == null) {
            System.err.println("onefold: " + job.name() + " runs without a memo: " + reason);
        } else {
            use.sayOthers(job.name(), inputs.splits());
        }
        Map<Fingerprint, Long> entries = use == null ? Map.of() : use.entries();
        List<Batch> batches = batches(inputs, entries, use != null);
        plan = count(inputs, entries, reason, use, System.nanoTime() - start);
        if (use != null) {
            note(use, plan, job.name());
        }
        return batches;
    }

    private Plan count(Inputs inputs, Map<Fingerprint, Long> entries, String reason, MemoUse use, long nanos) {
        long hits = 0;
        long hitBytes = 0;
        long bytes = 0;
        for (SplitRef split : inputs.splits()) {
            bytes += split.length();
            if (entries.containsKey(split.fingerprint())) {
                hits++;
                hitBytes += split.length();
            }
        }
        return new Plan(hits, hitBytes, inputs.splits().size() - hits, bytes - hitBytes, 0, 0, nanos,
            use == null ? "" : use.memo().folder().toString(), use == null ? reason : "");
    }

    /** Notes a run down for explain and stats; a note that cannot be written costs nothing else. */
    static void note(MemoUse use, Plan plan, String name) {
        try {
            use.memo().note(new Run(System.currentTimeMillis(), name, use.key(), plan.hits(), plan.hitBytes(),
                plan.misses(), plan.missBytes()));
        } catch (IOException e) {
            System.err.println("onefold: cannot note the run down in " + use.memo().folder() + ": " + e.getMessage());
        }
    }

    private List<Batch> batches(Inputs inputs, Map<Fingerprint, Long> entries, boolean hasMemo) throws IOException {
        Set<Integer> verified = sample(inputs, entries);
        long[] enough = enough(inputs, entries);
        List<Batch> batches = new ArrayList<>();
        List<Item> items = new ArrayList<>();
        long length = 0;
        boolean isHit = false;
        for (int i = 0; i < inputs.splits().size(); i++) {
            SplitRef split = inputs.splits().get(i);
            boolean isVerified = verified.contains(i);
            Long entry = isVerified ? null : entries.get(split.fingerprint());
            boolean isReplayed = entry != null;
            long cost = isReplayed ? entry : split.length();
            boolean isFull = isReplayed != isHit || length + cost > enough[isReplayed ? 1 : 0] || items.size() == MOST_ITEMS;
            if (isFull && !items.isEmpty()) {
                batches.add(batch(items, inputs, hasMemo, length, isHit));
                items.clear();
                length = 0;
            }
            items.add(Item.ofSplit(i, split, Item.ALL, isVerified));
            length += cost;
            isHit = isReplayed;
        }
        if (!items.isEmpty()) {
            batches.add(batch(items, inputs, hasMemo, length, isHit));
        }
        return batches;
    }

    /** The most bytes for tasks that compute, and for those that replay. */
    private long[] enough(Inputs inputs, Map<Fingerprint, Long> entries) {
        long[] sums = new long[2];
        for (SplitRef split : inputs.splits()) {
            Long entry = entries.get(split.fingerprint());
            sums[entry == null ? 0 : 1] += entry == null ? split.length() : entry;
        }
        long tasks = TASKS_A_CORE * context.defaultParallelism();
        return new long[] {Math.min(ENOUGH, sums[0] / tasks), Math.min(ENOUGH, sums[1] / tasks)};
    }

    private static Batch batch(List<Item> items, Inputs inputs, boolean hasMemo, long length, boolean isHit)
            throws IOException {
        String[] hosts = isHit ? new String[0] : inputs.hosts().of(items.get(0).split());
        return new Batch(items, inputs.records(), hasMemo, length, hosts);
    }

    /** Which hits to compute nevertheless: each with the asked probability, and at least one. */
    private Set<Integer> sample(Inputs inputs, Map<Fingerprint, Long> entries) {
        List<Integer> hits = new ArrayList<>();
        for (int i = 0; i < inputs.splits().size(); i++) {
            if (entries.containsKey(inputs.splits().get(i).fingerprint())) {
                hits.add(i);
            }
        }
        Set<Integer> chosen = new HashSet<>();
        if (job.verifiedShare() > 0 && !hits.isEmpty()) {
            Random random = new Random();
            chosen.add(hits.get(random.nextInt(hits.size())));
            hits.stream().filter(hit -> random.nextDouble() < job.verifiedShare()).forEach(chosen::add);
        }
        return chosen;
    }
}
