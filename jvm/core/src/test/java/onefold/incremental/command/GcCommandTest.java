package onefold.incremental.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintStream;
import java.nio.file.Files;
import java.util.List;
import java.util.Random;
import java.util.Set;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.Contraction;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GcCommandTest {
    /** The most that a run may note; as a set, the names of all nodes would not fit the tests' memory. */
    private static final int PARTS = 1 << 16;
    private static final int KIND = 2;

    @Test
    void aTreeOfManyPartsIsCollectedInLittleMemory(@TempDir java.nio.file.Path folder) throws Exception {
        Configuration conf = new Configuration();
        conf.set("onefold.split.mean", "1KiB");
        Path file = new Path(Files.writeString(folder.resolve("text"), text()).toUri());
        Memo memo = Memo.at(conf, new Path(folder.resolve("memo").toUri()));
        JobKey key = new JobKey.Builder().text(Run.TREE_PARTS, Integer.toString(PARTS)).build();
        memo.note(new Run(1, "tree", key, 0, 0, 0, 0));
        List<Fingerprint> splits =
            Versions.splits(conf, file.toString()).stream().map(SplitRef::fingerprint).toList();
        assertTrue(splits.size() > 1000, splits.size() + " splits");
        Contraction.Node root = Contraction.of(splits);
        Fingerprint node = Contraction.name(root, PARTS - 1);
        Fingerprint beyond = Contraction.name(root, PARTS);
        for (Fingerprint entry : List.of(splits.get(7), node, beyond)) {
            try (Memo.NewEntry made = memo.create(key, entry, KIND)) {
                assertTrue(made.commit());
            }
        }
        List<String> words = List.of("gc", "--memo", memo.folder().toString(), file.toString());
        assertEquals(0, new Commands().run(conf, words, new PrintStream(System.out), System.err));
        assertEquals(Set.of(splits.get(7), node), memo.entries(key).keySet());
    }

    private static String text() {
        Random random = new Random(1);
        StringBuilder text = new StringBuilder();
        while (text.length() < 1600 << 10) {
            text.append(random.nextLong()).append('\n');
        }
        return text.toString();
    }
}
