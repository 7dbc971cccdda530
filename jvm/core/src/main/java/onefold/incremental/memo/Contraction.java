package onefold.incremental.memo;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import onefold.incremental.split.Fingerprint;

/**
 * The tree in which results of splits are combined: Incoop's contraction tree (Bhatotia and others,
 * SOCC 2011), with groups found by content.
 *
 * <p>Neighbours on a level form a group, which is a node of the next level. Whether a group ends
 * behind a node depends on that node's fingerprint and on the level, and on nothing else; one in
 * {@value #MEAN} does. A group of one is no node of its own: its only child goes up a level.
 *
 * <p><b>Bound.</b> If k neighbours of a level are replaced by m others, all groups but those with the
 * others in them, and the one that the last of them opens, are as before. So at most m + 1 groups of
 * the next level are new. A changed split makes at most 1 + level new nodes on each level, h(h + 3) / 2
 * in a tree of h levels; on average little more than one on each level is.
 */
public final class Contraction {
    /** Children of a node, on average. */
    static final int MEAN = 8;
    /** Levels below the root; only splits that repeat a great deal make as many. */
    private static final int MOST_LEVELS = 64;

    /** A split ({@code children} is empty) or what combines its children, in order. */
    public record Node(Fingerprint fingerprint, int level, List<Node> children) {
        public boolean isSplit() {
            return children.isEmpty();
        }
    }

    private Contraction() {
    }

    /** The root of the tree over these fingerprints of splits, in order; at least one. */
    public static Node of(List<Fingerprint> splits) {
        List<Node> level = new ArrayList<>();
        for (Fingerprint split : splits) {
            level.add(new Node(split, 0, List.of()));
        }
        for (int number = 1; level.size() > 1; number++) {
            level = contract(level, number);
        }
        return level.get(0);
    }

    private static List<Node> contract(List<Node> level, int number) {
        List<Node> next = new ArrayList<>();
        List<Node> group = new ArrayList<>();
        for (Node node : level) {
            group.add(node);
            if (number < MOST_LEVELS && endsGroup(node.fingerprint, number)) {
                next.add(close(group, number));
                group = new ArrayList<>();
            }
        }
        if (!group.isEmpty()) {
            next.add(close(group, number));
        }
        return next;
    }

    private static boolean endsGroup(Fingerprint fingerprint, int level) {
        // a digest's bytes are as good as random; the multiplier makes levels independent
        long bits = ByteBuffer.wrap(fingerprint.bytes()).getLong() + level * 0x9e3779b97f4a7c15L;
        bits = (bits ^ (bits >>> 30)) * 0xbf58476d1ce4e5b9L;
        return Long.remainderUnsigned(bits ^ (bits >>> 27), MEAN) == 0;
    }

    private static Node close(List<Node> group, int level) {
        if (group.size() == 1) {
            return group.get(0);
        }
        MessageDigest digest = Fingerprint.digest();
        digest.update("onefold node 1".getBytes(StandardCharsets.US_ASCII));
        group.forEach(child -> digest.update(child.fingerprint.bytes()));
        return new Node(Fingerprint.finish(digest), level, Collections.unmodifiableList(group));
    }

    /** What the memo calls one part of a node's result. A split's result has all parts in one entry. */
    public static Fingerprint name(Node node, int part) {
        if (node.isSplit()) {
            return node.fingerprint;
        }
        MessageDigest digest = Fingerprint.digest();
        digest.update("onefold part 1".getBytes(StandardCharsets.US_ASCII));
        digest.update(ByteBuffer.allocate(4).putInt(part).array());
        digest.update(node.fingerprint.bytes());
        return Fingerprint.finish(digest);
    }

    /**
     * Passes on what the memo calls the nodes over these splits, in each of {@code parts} parts. Keeps the
     * nodes in memory and not their names, of which there are {@code parts} times as many.
     */
    public static void forEachName(List<Fingerprint> splits, int parts, Consumer<Fingerprint> use) {
        if (!splits.isEmpty() && parts > 0) {
            forEachName(of(splits), parts, use, new HashSet<>());
        }
    }

    private static void forEachName(Node node, int parts, Consumer<Fingerprint> use, Set<Fingerprint> seen) {
        // a node that repeats has the same nodes below it
        if (node.isSplit() || !seen.add(node.fingerprint)) {
            return;
        }
        for (int part = 0; part < parts; part++) {
            use.accept(name(node, part));
        }
        node.children.forEach(child -> forEachName(child, parts, use, seen));
    }
}
