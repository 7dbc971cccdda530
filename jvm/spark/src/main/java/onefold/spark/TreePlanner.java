package onefold.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import onefold.incremental.Refused;
import onefold.incremental.input.Piece;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.Contraction;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * Plans a reduce whose results are combined in a {@link Contraction} tree, once for each part of the keys.
 *
 * <p>Jobs of their own compute the missing splits, then the missing nodes, the lowest level first. The
 * action's job has one task for each part: it replays the root or combines the root's children.
 */
final class TreePlanner implements WorkFormat.Planner {
    /** Rounds that lose more entries than they compute, before the job fails. */
    private static final int MOST_SETBACKS = 3;

    private final JavaSparkContext context;
    private final Job job;
    private final Stage stage;
    private final Metrics metrics;
    private final int parts;
    private Plan plan;

    /** Refuses a job that verifies: a tree looks at most results of splits no more. */
    TreePlanner(JavaSparkContext context, Job job, Stage stage, Metrics metrics, int parts) throws Refused {
        if (job.verifiedShare() > 0) {
            throw new Refused("verify compares results of splits, which a reduce in a tree does not read; use it"
                + " with the ordinary reduce_by_key");
        }
        this.context = context;
        this.job = job;
        this.stage = stage;
        this.metrics = metrics;
        this.parts = parts;
    }

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
        ensureNoMark(inputs);
        MemoUse use;
        try {
            use = MemoUse.open(context, job.spec(), inputs.records());
        } catch (Refused e) {
            throw e;
        } catch (IOException e) {
            throw new Refused("a reduce with associative=True keeps its tree in the memo, and "
                + job.spec().memo() + " cannot be used: " + e.getMessage() + "; choose another folder, or leave"
                + " associative=True out", e);
        }
        use.sayOthers(job.name(), inputs.splits());
        if (inputs.splits().isEmpty()) {
            plan = new Plan(0, 0, 0, 0, 0, 0, System.nanoTime() - start, use.memo().folder().toString(), "");
            return List.of();
        }
        Tree tree = new Tree(inputs, use);
        Set<Integer> missing = tree.missingSplits();
        plan = tree.count(missing, System.nanoTime() - start);
        MapPlanner.note(use, plan, job.name());
        computeBelowRoots(tree);
        return tree.roots();
    }

    /** A tree is made of results that the memo keeps, and that of a split with a mark it does not. */
    private void ensureNoMark(Inputs inputs) throws IOException {
        Records records = Records.parse(inputs.records());
        for (SplitRef split : inputs.splits()) {
            if (new Piece(split, records).startsWithMark(job.conf(context))) {
                throw new Refused(split.file() + " begins with a byte order mark, so that its first split has a result"
                    + " that no other file can reuse, and a tree needs all results; remove the mark, or leave"
                    + " associative=True out");
            }
        }
    }

    private void computeBelowRoots(Tree tree) throws IOException {
        int setbacks = 0;
        while (true) {
            List<Item> ready = tree.nextLevel();
            if (ready.isEmpty()) {
                return;
            }
            boolean allDone = run(tree, ready);
            if (!allDone && ++setbacks == MOST_SETBACKS) {
                throw new IOException("entries of the memo " + job.spec().memo() + " are lost as fast as they are"
                    + " computed; another program may delete them");
            }
        }
    }

    private boolean run(Tree tree, List<Item> items) throws IOException {
        Job round = job.withId();
        try {
            List<byte[]> statuses = Stage.run(context, round, stage, () -> tree.batches(items), metrics, true)
                .collect();
            boolean allDone = true;
            for (byte[] status : statuses) {
                Item item = items.get(WorkWriter.statusIndex(status));
                if (WorkWriter.isDone(status)) {
                    tree.present.add(item.name());
                } else {
                    allDone = false;
                }
            }
            if (!allDone) {
                tree.lookAgain();
            }
            return allDone;
        } finally {
            WorkFormat.forget(round.spec());
        }
    }

    /** The tree of one plan, and which of its results there are. */
    private final class Tree {
        private final Inputs inputs;
        private final MemoUse use;
        private final Contraction.Node root;
        private final Map<Fingerprint, Integer> splits = new HashMap<>();
        private final Set<Fingerprint> present;

        Tree(Inputs inputs, MemoUse use) {
            this.inputs = inputs;
            this.use = use;
            List<Fingerprint> names = new ArrayList<>();
            for (SplitRef split : inputs.splits()) {
                splits.putIfAbsent(split.fingerprint(), names.size());
                names.add(split.fingerprint());
            }
            root = Contraction.of(names);
            present = new HashSet<>(use.entries().keySet());
        }

        /** After an entry was lost. */
        void lookAgain() throws IOException {
            present.clear();
            present.addAll(use.memo().entries(use.key()).keySet());
        }

        /** What is needed and missing in one part, by name; the root is left out unless it is a split. */
        private void collect(Contraction.Node node, int part, Map<Fingerprint, Item> missing) {
            Fingerprint name = Contraction.name(node, part);
            boolean isNeeded = !present.contains(name) && !missing.containsKey(name);
            if (!isNeeded) {
                return;
            }
            node.children().forEach(child -> collect(child, part, missing));
            if (node != root) {
                missing.put(name, item(node, 0, part));
            }
        }

        private Item item(Contraction.Node node, int index, int part) {
            Fingerprint name = Contraction.name(node, part);
            if (node.isSplit()) {
                int number = splits.get(node.fingerprint());
                return Item.ofSplit(index, inputs.splits().get(number), part, false);
            }
            List<Item.Child> children = new ArrayList<>();
            for (Contraction.Node child : node.children()) {
                children.add(new Item.Child(Contraction.name(child, part), child.isSplit()));
            }
            return new Item(index, name, null, children, part, false);
        }

        private Map<Fingerprint, Item> missing() {
            Map<Fingerprint, Item> missing = new LinkedHashMap<>();
            for (int part = 0; part < parts; part++) {
                collect(root, part, missing);
            }
            return missing;
        }

        Set<Integer> missingSplits() {
            Set<Integer> numbers = new HashSet<>();
            for (Item item : missing().values()) {
                if (item.split() != null) {
                    numbers.add(splits.get(item.name()));
                }
            }
            if (root.isSplit() && !present.contains(root.fingerprint())) {
                numbers.add(0);
            }
            return numbers;
        }

        /** Missing items whose children are there: the splits, or else the nodes of the lowest level. */
        List<Item> nextLevel() {
            Map<Fingerprint, Item> missing = missing();
            List<Item> ready = new ArrayList<>();
            for (Item item : missing.values()) {
                boolean isReady = item.children().stream().noneMatch(child -> missing.containsKey(child.name()));
                if (isReady) {
                    int part = item.split() == null ? item.part() : Item.ALL;
                    ready.add(new Item(ready.size(), item.name(), item.split(), item.children(), part, false));
                }
            }
            return ready;
        }

        List<Batch> batches(List<Item> items) throws IOException {
            List<Batch> batches = new ArrayList<>();
            for (Item item : items) {
                batches.add(batch(item));
            }
            return batches;
        }

        private Batch batch(Item item) throws IOException {
            SplitRef split = item.split();
            String[] hosts = split == null ? new String[0] : inputs.hosts().of(split);
            return new Batch(List.of(item), inputs.records(), true, split == null ? 1 : split.length(), hosts);
        }

        List<Batch> roots() throws IOException {
            List<Item> items = new ArrayList<>();
            for (int part = 0; part < parts; part++) {
                items.add(item(root, part, part));
            }
            return batches(items);
        }

        Plan count(Set<Integer> missingSplits, long nanos) {
            long misses = 0;
            long missBytes = 0;
            long bytes = 0;
            for (SplitRef split : inputs.splits()) {
                bytes += split.length();
                if (missingSplits.contains(splits.get(split.fingerprint()))) {
                    misses++;
                    missBytes += split.length();
                }
            }
            long nodes = missing().values().stream().filter(item -> item.split() == null).count();
            long roots = 0;
            for (int part = 0; part < parts; part++) {
                boolean isMissing = !root.isSplit() && !present.contains(Contraction.name(root, part));
                roots += isMissing ? 1 : 0;
            }
            return new Plan(inputs.splits().size() - misses, bytes - missBytes, misses, missBytes, nodes + roots,
                (long) parts * count(root, new HashSet<>()), nanos, use.memo().folder().toString(), "");
        }

        private long count(Contraction.Node node, Set<Fingerprint> seen) {
            if (node.isSplit() || !seen.add(node.fingerprint())) {
                return 0;
            }
            long nodes = 1;
            for (Contraction.Node child : node.children()) {
                nodes += count(child, seen);
            }
            return nodes;
        }
    }
}
