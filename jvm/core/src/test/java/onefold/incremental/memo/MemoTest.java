package onefold.incremental.memo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import onefold.incremental.Inputs;
import onefold.incremental.files.Leases;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoTest {
    private static final int KIND = 1;
    private static final JobKey JOB = JobKey.of(Map.of("program", "one"));

    @TempDir
    private java.nio.file.Path folder;

    private Memo memo() throws IOException {
        return Memo.at(new Configuration(), new Path(folder.toUri()));
    }

    private static Fingerprint split(int number) {
        return Fingerprint.of(Fingerprint.digest().digest(new byte[] {(byte) number}));
    }

    private static boolean publish(Memo memo, int split, byte[] payload) throws IOException {
        try (Memo.NewEntry entry = memo.create(JOB, split(split), KIND)) {
            entry.out().write(payload);
            return entry.commit();
        }
    }

    private static byte[] read(Memo memo, int split) throws IOException {
        Optional<InputStream> in = memo.read(JOB, split(split), KIND);
        if (in.isEmpty()) {
            return null;
        }
        try (InputStream stream = in.get()) {
            return stream.readAllBytes();
        }
    }

    private java.nio.file.Path file(int split) {
        return folder.resolve("entries").resolve(JOB.id()).resolve(split(split).toString());
    }

    @Test
    void whatIsPublishedIsRead() throws IOException {
        int[] lengths = {0, 1, 100_000, (16 << 20) + 5};
        for (int i = 0; i < lengths.length; i++) {
            byte[] payload = Inputs.splitMix(i, lengths[i], 255);
            assertTrue(publish(memo(), i, payload));
            assertArrayEquals(payload, read(memo(), i));
        }
        assertEquals(null, read(memo(), 99));
        assertEquals(lengths.length, memo().entries(JOB).size());
        assertEquals(0, memo().entries(JobKey.of(Map.of())).size());
    }

    @Test
    void theFirstOfTwoThatPublishWinsAndBothSucceed() throws IOException {
        assertTrue(publish(memo(), 1, new byte[] {1}));
        assertFalse(publish(memo(), 1, new byte[] {1}));
        assertArrayEquals(new byte[] {1}, read(memo(), 1));
        assertEquals(0, Files.list(folder.resolve("tmp")).count());
    }

    @Test
    void anEntryThatIsNotCommittedDoesNotAppear() throws IOException {
        try (Memo.NewEntry entry = memo().create(JOB, split(1), KIND)) {
            entry.out().write(1);
        }
        assertEquals(null, read(memo(), 1));
        assertEquals(0, Files.list(folder.resolve("tmp")).count());
    }

    @Test
    void everyDamagedByteAndLengthIsNamedAndTheEntryCanBeReplaced() throws IOException {
        publish(memo(), 1, new byte[] {1, 2, 3});
        byte[] whole = Files.readAllBytes(file(1));
        for (int i = 0; i <= whole.length; i++) {
            byte[] damaged = i == whole.length ? java.util.Arrays.copyOf(whole, i + 1) : whole.clone();
            if (i < whole.length) {
                damaged[i] ^= 4;
            }
            byte[] shorter = java.util.Arrays.copyOf(whole, Math.min(i, whole.length - 1));
            for (byte[] bytes : List.of(damaged, shorter)) {
                Files.write(file(1), bytes);
                String message = assertThrows(DamagedEntry.class, () -> read(memo(), 1)).getMessage();
                assertTrue(message.contains(split(1).toString()) && message.contains("damaged"), message);
            }
        }
        memo().delete(JOB, split(1));
        assertTrue(publish(memo(), 1, new byte[] {1, 2, 3}));
        assertArrayEquals(new byte[] {1, 2, 3}, read(memo(), 1));
    }

    @Test
    void anEntryOfAnotherNameOrKindIsDamaged() throws IOException {
        publish(memo(), 1, new byte[] {1});
        Files.copy(file(1), file(2));
        assertThrows(DamagedEntry.class, () -> read(memo(), 2));
        assertThrows(DamagedEntry.class, () -> memo().read(JOB, split(1), KIND + 1));
    }

    @Test
    void keysDifferWherePartsDo() {
        assertEquals(JOB.id(), JobKey.of(Map.of("program", "one")).id());
        assertNotEquals(JOB.id(), JobKey.of(Map.of("program", "two")).id());
        assertNotEquals(JobKey.of(Map.of("ab", "c")).id(), JobKey.of(Map.of("a", "bc")).id());
    }

    @Test
    void gcTakesWhatNoVersionNeedsAndLeavesWhatRunningJobsPlannedWith() throws IOException {
        for (int i = 0; i < 4; i++) {
            publish(memo(), i, new byte[] {(byte) i});
        }
        try (Leases.Lease lease = memo().lease()) {
            assertEquals(new Reclaimed(0, 0, 3), memo().reclaim(present -> Set.of(split(0)), false));
            lease.narrow(Set.of(Memo.name(JOB, split(1))));
            assertEquals(2, memo().reclaim(present -> Set.of(split(0)), true).files());
            assertEquals(2, memo().reclaim(present -> Set.of(split(0)), false).files());
        }
        assertEquals(Set.of(split(0), split(1)), memo().entries(JOB).keySet());
        assertEquals(1, memo().reclaim(present -> Set.of(split(0)), false).files());
        assertArrayEquals(new byte[] {0}, read(memo(), 0));
    }

    @Test
    void aLeaseThatWasNotRenewedIsDead() throws IOException {
        publish(memo(), 1, new byte[] {1});
        Files.createDirectories(folder.resolve("leases"));
        java.nio.file.Path old = Files.write(folder.resolve("leases/someone"), new byte[] {1});
        assertEquals(1, memo().reclaim(present -> Set.of(), false).leased());
        Files.setLastModifiedTime(old, java.nio.file.attribute.FileTime.fromMillis(
            System.currentTimeMillis() - Leases.LIFETIME_MS - 1000));
        assertEquals(1, memo().reclaim(present -> Set.of(), false).files());
    }

    @Test
    void runsAreKeptAndReadBack() throws IOException {
        Run run = new Run(5, "word count", JOB, 1, 2, 3, 4);
        memo().note(run);
        memo().note(new Run(4, "x=\n y:", JobKey.of(Map.of("a b", "c\nd")), 0, 0, 0, 0));
        Files.write(folder.resolve("runs/broken"), new byte[] {1, 2});
        List<Run> history = memo().history();
        assertEquals(List.of("x=\n y:", "word count"), history.stream().map(Run::job).toList());
        assertEquals(JOB.id(), history.get(1).key().id());
        assertEquals(4, history.get(1).missBytes());
    }

    @Test
    void aFolderThatCannotBeWrittenIsTold() throws IOException {
        Files.write(folder.resolve("file"), new byte[1]);
        Memo memo = Memo.at(new Configuration(), new Path(folder.resolve("file").toUri()));
        assertThrows(IOException.class, memo::ensureWritable);
        memo().ensureWritable();
    }
}
