package onefold.incremental.memo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.memo.Contraction.Node;
import org.junit.jupiter.api.Test;

class ContractionTest {
    private static Fingerprint fingerprint(long number) {
        return Fingerprint.of(Fingerprint.digest().digest(ByteBuffer.allocate(8).putLong(number).array()));
    }

    private static List<Fingerprint> random(Random random, int count) {
        List<Fingerprint> splits = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            splits.add(fingerprint(random.nextLong()));
        }
        return splits;
    }

    private static List<Fingerprint> leaves(Node node) {
        if (node.isSplit()) {
            return List.of(node.fingerprint());
        }
        List<Fingerprint> leaves = new ArrayList<>();
        node.children().forEach(child -> leaves.addAll(leaves(child)));
        return leaves;
    }

    private static Set<Fingerprint> inner(Node node, Set<Fingerprint> found) {
        if (!node.isSplit()) {
            found.add(node.fingerprint());
            node.children().forEach(child -> inner(child, found));
        }
        return found;
    }

    @Test
    void theLeavesAreTheSplitsInOrder() {
        Random random = new Random(1);
        for (int count = 1; count < 300; count++) {
            List<Fingerprint> splits = random(random, count);
            assertEquals(splits, leaves(Contraction.of(splits)));
        }
    }

    @Test
    void equalSplitsGiveATreeToo() {
        for (int number = 0; number < 50; number++) {
            List<Fingerprint> splits = Collections.nCopies(200, fingerprint(number));
            assertEquals(splits, leaves(Contraction.of(splits)));
        }
    }

    @Test
    void everyNodeHasTwoChildrenOrMore() {
        Node root = Contraction.of(random(new Random(2), 5000));
        List<Node> nodes = new ArrayList<>(List.of(root));
        while (!nodes.isEmpty()) {
            Node node = nodes.remove(nodes.size() - 1);
            assertTrue(node.isSplit() || node.children().size() >= 2);
            nodes.addAll(node.children());
        }
    }

    /** After one change: at most h(h + 3) / 2 new nodes in a tree of h levels; for m new splits hm + h(h + 1) / 2. */
    @Test
    void aChangeMakesNoMoreNewNodesThanTheBound() {
        Random random = new Random(3);
        long all = 0;
        int rounds = 2000;
        for (int round = 0; round < rounds; round++) {
            List<Fingerprint> splits = random(random, 1 + random.nextInt(1000));
            Node before = Contraction.of(splits);
            List<Fingerprint> changed = new ArrayList<>(splits);
            int at = random.nextInt(changed.size());
            int kind = random.nextInt(3);
            if (kind == 0) {
                changed.set(at, fingerprint(random.nextLong()));
            } else if (kind == 1) {
                changed.add(at, fingerprint(random.nextLong()));
            } else if (changed.size() > 1) {
                changed.remove(at);
            }
            Node after = Contraction.of(changed);
            Set<Fingerprint> fresh = inner(after, new HashSet<>());
            fresh.removeAll(inner(before, new HashSet<>()));
            int height = after.level();
            assertTrue(fresh.size() <= height * (height + 3) / 2, fresh.size() + " of " + height + " levels");
            all += fresh.size();
        }
        // trees of some 500 splits have four levels or so
        assertTrue(all < 6L * rounds, "on average " + (double) all / rounds);
    }

    @Test
    void namesDifferByPartButForSplits() {
        Node root = Contraction.of(random(new Random(4), 50));
        assertTrue(!Contraction.name(root, 0).equals(Contraction.name(root, 1)));
        Node split = Contraction.of(List.of(fingerprint(1)));
        assertEquals(Contraction.name(split, 0), Contraction.name(split, 1));
    }
}
