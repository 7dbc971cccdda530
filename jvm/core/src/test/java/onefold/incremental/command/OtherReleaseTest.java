package onefold.incremental.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.Set;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A memo in which a later release of onefold wrote entries of its own format. */
class OtherReleaseTest {
    private static final int KIND = 1;
    private static final JobKey JOB = JobKey.of(Map.of("program", "one"));

    @TempDir
    private java.nio.file.Path folder;
    private final Configuration conf = new Configuration();
    private Memo memo;
    private List<SplitRef> splits;

    @BeforeEach
    void prepare() throws Exception {
        conf.set("onefold.split.mean", "1KiB");
        Files.writeString(folder.resolve("text"), "some line\n".repeat(2000));
        splits = Versions.splits(conf, file("text"));
        memo = Memo.at(conf, new Path(file("memo")));
        memo.note(new Run(1, "job", JOB, 0, 0, 0, 0));
    }

    private String file(String name) {
        return folder.resolve(name).toUri().toString();
    }

    private Fingerprint split(int number) {
        return splits.get(number).fingerprint();
    }

    private void publish(Fingerprint split) throws Exception {
        try (Memo.NewEntry entry = memo.create(JOB, split, KIND)) {
            assertTrue(entry.commit());
        }
    }

    /** Writes what a release with format {@code version} would. */
    private java.nio.file.Path publish(Fingerprint split, int version) throws Exception {
        java.nio.file.Path job = Files.createDirectories(folder.resolve("memo/entries").resolve(JOB.id()));
        return Files.writeString(job.resolve(split + "." + version), "its own business");
    }

    private String run(String... words) throws InterruptedException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        assertEquals(0, new Commands().run(conf, List.of(words), new PrintStream(out), System.err));
        return out.toString(StandardCharsets.UTF_8);
    }

    @Test
    void anEntryOfAnotherFormatIsAMissBesideWhichThisReleasePublishesItsOwn() throws Exception {
        java.nio.file.Path other = publish(split(0), 2);
        assertTrue(memo.read(JOB, split(0), KIND).isEmpty());
        assertEquals(new Memo.Found(Map.of(), Map.of(split(0), 2)), memo.find(JOB));
        assertEquals(1, memo.find(JOB).inOthersOnly(List.of(split(0))));
        publish(split(0));
        assertTrue(memo.read(JOB, split(0), KIND).isPresent());
        assertEquals(Set.of(split(0)), memo.entries(JOB).keySet());
        assertEquals(0, memo.find(JOB).inOthersOnly(List.of(split(0))));
        assertEquals("its own business", Files.readString(other));
    }

    @Test
    void explainAndStatsSayWhatAnotherReleaseWrote() throws Exception {
        publish(split(0));
        Fingerprint last = split(splits.size() - 1);
        publish(last, 12);
        List<String> lines = run("explain", "--memo", file("memo"), "job", file("text")).lines().toList();
        assertTrue(lines.get(1).endsWith("\thit\tcomputed before"), lines.get(1));
        String said = lines.get(lines.size() - 1);
        assertTrue(said.endsWith("\tmiss\tanother release of onefold computed it, in format 12"), said);
        assertTrue(run("stats", "--memo", file("memo"))
            .contains("written by other releases in another format: 1 entries, 16 bytes"));
    }

    @Test
    void gcLeavesItAloneInItsPlaceAndPutsItBackFromTheTrash() throws Exception {
        java.nio.file.Path other = publish(Fingerprint.of(new byte[32]), 2);
        java.nio.file.Path trash = Files.createDirectories(folder.resolve("memo/trash"));
        java.nio.file.Path moved = publish(Fingerprint.of(Fingerprint.digest().digest()), 2);
        Files.move(moved, trash.resolve(JOB.id() + "+" + moved.getFileName()));
        java.nio.file.Path stray = Files.writeString(other.resolveSibling("stray.2"), "no entry");
        String said = run("gc", "--memo", file("memo"), file("text"));
        assertTrue(said.contains("deleted 1 files") && said.contains("releases of onefold that wrote them: 2"), said);
        assertTrue(Files.exists(other) && Files.exists(moved));
        assertFalse(Files.exists(stray));
    }
}
