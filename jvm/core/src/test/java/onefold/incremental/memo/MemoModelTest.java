package onefold.incremental.memo;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import onefold.incremental.files.Leases;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs that die before any call of the file system, and collections that run before any call. */
class MemoModelTest {
    private static final JobKey JOB = JobKey.of(Map.of("program", "one"));
    private static final int SPLITS = 3;

    private final Configuration conf = StepFileSystem.configuration();
    private int memos;
    @TempDir
    private java.nio.file.Path root;

    @AfterEach
    void reset() {
        StepFileSystem.reset();
    }

    private Memo memo(int number) throws IOException {
        return Memo.at(conf, new Path("step://" + root.resolve("memo" + number)));
    }

    private static Fingerprint split(int number) {
        return Fingerprint.of(Fingerprint.digest().digest(new byte[] {(byte) number}));
    }

    /** What the job computes for a split. */
    private static byte[] result(int number) {
        return new byte[] {(byte) number, 1, 2, 3};
    }

    /** A job: plans, replays what it planned to, and computes the rest. Returns what it planned to replay. */
    private static Set<Fingerprint> job(Memo memo) throws IOException {
        try (Leases.Lease lease = memo.lease()) {
            Set<Fingerprint> planned = new HashSet<>(memo.entries(JOB).keySet());
            Set<String> names = new HashSet<>();
            planned.forEach(split -> names.add(Memo.name(JOB, split)));
            lease.narrow(names);
            memo.note(new Run(1, "job", JOB, planned.size(), 0, SPLITS - planned.size(), 0));
            for (int i = 0; i < SPLITS; i++) {
                if (planned.contains(split(i))) {
                    Optional<InputStream> entry = memo.read(JOB, split(i), 1);
                    assertTrue(entry.isPresent(), "what the job planned with is gone");
                    assertArrayEquals(result(i), entry.get().readAllBytes());
                } else {
                    publish(memo, i);
                }
            }
            return planned;
        }
    }

    private static void publish(Memo memo, int split) throws IOException {
        try (Memo.NewEntry entry = memo.create(JOB, split(split), 1)) {
            entry.out().write(result(split));
            entry.commit();
        }
    }

    private static void expectWholeEntriesOnly(Memo memo) throws IOException {
        for (int i = 0; i < SPLITS; i++) {
            Optional<InputStream> entry = memo.read(JOB, split(i), 1);
            if (entry.isPresent()) {
                assertArrayEquals(result(i), entry.get().readAllBytes());
            }
        }
    }

    private void killLeases(int number) throws IOException {
        java.nio.file.Path leases = root.resolve("memo" + number).resolve("leases");
        if (Files.exists(leases)) {
            try (Stream<java.nio.file.Path> files = Files.list(leases)) {
                for (java.nio.file.Path file : files.toList()) {
                    Files.setLastModifiedTime(file, FileTime.fromMillis(0));
                }
            }
        }
    }

    private interface Program {
        void run(Memo memo) throws IOException;
    }

    /** Runs {@code program} until it is not crashed any more; returns after how many calls that is. */
    private int crashEverywhere(Program before, Program program) throws IOException {
        for (int call = 0;; call++) {
            StepFileSystem.reset();
            int number = memos++;
            Memo memo = memo(number);
            before.run(memo);
            StepFileSystem.crashBefore(call);
            boolean isCrashed = false;
            try {
                program.run(memo);
            } catch (IOException e) {
                isCrashed = true;
            }
            boolean isOver = StepFileSystem.isPending();
            StepFileSystem.reset();
            expectWholeEntriesOnly(memo);
            killLeases(number);
            memo.reclaim(present -> Set.of(split(0), split(1), split(2)), false);
            Set<Fingerprint> planned = job(memo);
            assertEquals(SPLITS, memo.entries(JOB).size());
            assertTrue(planned.size() <= SPLITS);
            assertEquals(Set.of(split(0), split(1), split(2)), job(memo));
            if (isOver) {
                assertTrue(!isCrashed);
                return call;
            }
        }
    }

    @Test
    void aJobThatDiesAnywhereLeavesWholeEntriesOnlyAndTheNextCompletes() throws IOException {
        assertTrue(crashEverywhere(memo -> { }, MemoModelTest::job) > 30);
        assertTrue(crashEverywhere(memo -> publish(memo, 1), MemoModelTest::job) > 20);
    }

    @Test
    void aCollectionThatDiesAnywhereLosesNothingThatIsNeeded() throws IOException {
        Set<Fingerprint> needed = Set.of(split(0));
        for (int call = 0;; call++) {
            StepFileSystem.reset();
            Memo memo = memo(call);
            job(memo);
            StepFileSystem.crashBefore(call);
            try {
                memo.reclaim(present -> needed, false);
            } catch (IOException e) {
                assertEquals("crashed", e.getMessage());
            }
            boolean isOver = StepFileSystem.isPending();
            StepFileSystem.reset();
            expectWholeEntriesOnly(memo);
            assertTrue(memo.read(JOB, split(0), 1).isPresent());
            memo.reclaim(present -> needed, false);
            assertEquals(Set.of(split(0)), memo.entries(JOB).keySet());
            assertEquals(0, Files.list(root.resolve("memo" + call).resolve("trash")).count());
            if (isOver) {
                assertTrue(call > 10);
                return;
            }
        }
    }

    @Test
    void aCollectionBeforeAnyCallOfAJobTakesNothingThatTheJobPlannedWith() throws IOException {
        for (int call = 0;; call++) {
            StepFileSystem.reset();
            Memo memo = memo(call);
            publish(memo, 0);
            publish(memo, 2);
            StepFileSystem.runBefore(call, () -> memo.reclaim(present -> Set.of(), false));
            job(memo);
            if (StepFileSystem.isPending()) {
                assertTrue(call > 20);
                return;
            }
        }
    }

    @Test
    void aJobThatPlansBeforeAnyCallOfACollectionFindsWhatItPlannedWithAfterwards() throws IOException {
        for (int call = 0;; call++) {
            StepFileSystem.reset();
            Memo memo = memo(call);
            publish(memo, 0);
            publish(memo, 2);
            Set<Fingerprint> planned = new HashSet<>();
            Leases.Lease[] lease = new Leases.Lease[1];
            StepFileSystem.runBefore(call, () -> {
                lease[0] = memo.lease();
                planned.addAll(memo.entries(JOB).keySet());
                Set<String> names = new HashSet<>();
                planned.forEach(split -> names.add(Memo.name(JOB, split)));
                lease[0].narrow(names);
                expectThere(memo, planned);
            });
            memo.reclaim(present -> Set.of(), false);
            boolean isOver = StepFileSystem.isPending();
            expectThere(memo, planned);
            if (isOver) {
                assertTrue(call > 10);
                return;
            }
            lease[0].close();
        }
    }

    private static void expectThere(Memo memo, Set<Fingerprint> planned) throws IOException {
        for (Fingerprint split : planned) {
            assertTrue(memo.read(JOB, split, 1).isPresent(), "what the job planned with is gone");
        }
    }

    @Test
    void twoJobsThatPublishTheSameBothSucceed() throws IOException {
        for (int call = 0;; call++) {
            StepFileSystem.reset();
            Memo memo = memo(call);
            StepFileSystem.runBefore(call, () -> job(memo));
            job(memo);
            boolean isOver = StepFileSystem.isPending();
            StepFileSystem.reset();
            assertEquals(Set.of(split(0), split(1), split(2)), job(memo));
            if (isOver) {
                return;
            }
        }
    }
}
