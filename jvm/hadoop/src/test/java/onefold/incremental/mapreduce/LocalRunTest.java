package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Jobs on one machine, through the command line, by Hadoop's local engine. */
class LocalRunTest {
    private static final int SPLITS_AT_LEAST = 4;

    @TempDir
    private Path folder;
    private Program program;
    private Path jar;
    private int outputs;

    @BeforeEach
    void prepare() throws Exception {
        program = new Program(folder, new Configuration(false), uri("memo"));
        jar = Program.jarOf(folder.resolve("jobs.jar"), Jobs.class, Jobs.Words.class, Jobs.Words.Seen.class,
            Jobs.Sum.class, Jobs.OldWords.class, Jobs.Cells.class);
    }

    private static String text(int seed, int lines) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < lines; i++) {
            text.append("word").append(random.nextInt(500)).append(" word").append(random.nextInt(500))
                .append(i % 7 == 0 ? "\r\n" : "\n");
        }
        return text.toString();
    }

    private void put(String text, String name) throws Exception {
        Files.writeString(folder.resolve("source"), text, StandardCharsets.UTF_8);
        Program.Ended ended =
            program.onefold("put", "--mean", "16KiB", "--overwrite", folder.resolve("source").toString(), uri(name));
        assertEquals(0, ended.status(), ended.output());
    }

    private String uri(String name) {
        return folder.resolve(name).toUri().toString();
    }

    private Path newOutput() {
        return folder.resolve("out" + outputs++);
    }

    private record Result(Path output, Program.Ended ended) {
    }

    private Result jobs(List<String> own, String mode, String input, String... more) throws Exception {
        Path output = newOutput();
        String[] words = Stream.concat(Stream.of(jar.toString(), Jobs.class.getName(), mode, uri(input),
            output.toUri().toString()), Stream.of(more)).toArray(String[]::new);
        return new Result(output, program.run(own, words));
    }

    private Path plain(String mode, String input) throws Exception {
        Path output = newOutput();
        Program.Ended ended = program.plain(Jobs.class.getName(), mode, uri(input), output.toUri().toString());
        assertEquals(0, ended.status(), ended.output());
        return output;
    }

    private static void expectSame(Path plain, Result result) throws IOException {
        assertEquals(0, result.ended.status(), result.ended.output());
        assertEquals(Program.bags(plain), Program.bags(result.output));
    }

    private static long[] replayed(Result result) {
        assertEquals(1, result.ended.replayed().size(), result.ended.output());
        String[] parts = result.ended.replayed().get(0).split("/");
        return new long[] {Long.parseLong(parts[0]), Long.parseLong(parts[1])};
    }

    @Test
    void resultsAndCountersEqualThePlainJobsAndASmallChangeComputesFewSplits() throws Exception {
        String text = text(1, 10_000);
        for (String mode : new String[] {"words", "combined", "old", "old-combined"}) {
            put(text, "in");
            Path plain = plain(mode, "in");
            Result first = jobs(List.of(), mode, "in");
            Result second = jobs(List.of(), mode, "in");
            expectSame(plain, first);
            expectSame(plain, second);
            long splits = replayed(first)[1];
            assertTrue(splits >= SPLITS_AT_LEAST, first.ended.output());
            assertEquals(0, replayed(first)[0]);
            assertEquals(splits, replayed(second)[0]);
            String counter = mode.startsWith("old") ? "lines" : "LINES";
            for (Result result : List.of(first, second)) {
                assertEquals(10_000, result.ended.counter(counter), mode);
                assertEquals(10_000, result.ended.counter("Map input records"), mode);
            }

            put(text.substring(0, 70_001) + "inserted line\n" + text.substring(70_001), "in");
            Result changed = jobs(List.of(), mode, "in");
            expectSame(plain(mode, "in"), changed);
            assertTrue(replayed(changed)[1] - replayed(changed)[0] <= 4, changed.ended.output());
            assertNotEquals(replayed(changed)[1], replayed(changed)[0]);
        }
    }

    @Test
    void recordsOfOneLengthAreReplayedAndAPartOfOneFailsAsInThePlainJob() throws Exception {
        byte[] data = new byte[4 * 20_000];
        new Random(8).nextBytes(data);
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) ('a' + (data[i] & 3));
        }
        Files.write(folder.resolve("source"), data);
        Program.Ended put = program.onefold("put", "--mean", "16KiB", "--records", "length:4",
            folder.resolve("source").toString(), uri("in"));
        assertEquals(0, put.status(), put.output());
        for (String mode : new String[] {"fixed", "old-fixed"}) {
            Path plain = plain(mode, "in");
            Result first = jobs(List.of(), mode, "in");
            Result second = jobs(List.of(), mode, "in");
            expectSame(plain, first);
            expectSame(plain, second);
            assertTrue(replayed(second)[1] >= SPLITS_AT_LEAST, second.ended.output());
            assertEquals(replayed(second)[1], replayed(second)[0], mode);
        }

        Files.write(folder.resolve("cut"), Arrays.copyOf(data, data.length - 1));
        assertEquals(1, program.plain(Jobs.class.getName(), "fixed", uri("cut"), newOutput().toUri().toString()).status());
        Result cut = jobs(List.of(), "fixed", "cut");
        assertEquals(1, cut.ended.status());
        assertTrue(cut.ended.output().contains("ends with a record of 3 bytes at 79996, expected 4"), cut.ended.output());
    }

    @Test
    void aMapperThatLooksAtItsTaskIsToldAndNothingIsKept() throws Exception {
        put(text(2, 3000), "in");
        for (String mode : new String[] {"offset", "path", "attempt", "property", "old-offset", "identity"}) {
            Path plain = plain(mode, "in");
            for (int i = 0; i < 2; i++) {
                Result result = jobs(List.of(), mode, "in");
                expectSame(plain, result);
                assertEquals(0, replayed(result)[0], mode);
                assertTrue(result.ended.output().contains("the mapper looks at"), result.ended.output());
            }
        }
    }

    @Test
    void theFirstSplitOfAFileWithAByteOrderMarkIsComputedEachTime() throws Exception {
        put("\ufeff" + text(2, 3000), "in");
        Path plain = plain("words", "in");
        for (int i = 0; i < 2; i++) {
            Result result = jobs(List.of(), "words", "in");
            expectSame(plain, result);
            assertEquals(i == 0 ? 0 : replayed(result)[1] - 1, replayed(result)[0]);
            assertTrue(result.ended.output().contains("the byte order mark of its file"), result.ended.output());
        }
    }

    @Test
    void jobsThatCannotBeMemoisedRunPlainlyAndSayWhy() throws Exception {
        put(text(3, 2000), "in");
        Result mapOnly = jobs(List.of(), "map-only", "in");
        expectSame(plain("map-only", "in"), mapOnly);
        assertTrue(mapOnly.ended.output().contains("runs without the memo: it has no reduce"), mapOnly.ended.output());

        Files.writeString(folder.resolve("memo"), "a file where the memo should be");
        Result noMemo = jobs(List.of(), "words", "in");
        expectSame(plain("words", "in"), noMemo);
        assertTrue(noMemo.ended.output().contains("cannot be written"), noMemo.ended.output());
    }

    @Test
    void onAFullDiskAJobKeepsWhatItCanAndPutLeavesNothing() throws Exception {
        Path disk = Files.createDirectory(folder.resolve("disk"));
        if (!mount(disk, "size=128k")) {
            System.out.println("skipped: this user may not mount a small disk");
            Assumptions.abort();
        }
        try {
            program = new Program(folder, new Configuration(false), uri("disk/memo"));
            put(text(9, 10_000), "in");
            Path plain = plain("words", "in");
            Result full = jobs(List.of(), "words", "in");
            expectSame(plain, full);
            String said = full.ended.output();
            assertTrue(said.contains("the result of a split is not kept: cannot write "), said);
            assertTrue(said.contains("disk/memo/tmp/new-") && said.contains("No space left on device"), said);
            assertTrue(full.ended.counter("splits not kept: the memo cannot be written") >= 1, said);
            assertEquals(0, disk.resolve("memo/tmp").toFile().list().length);

            Program.Ended put = program.onefold("put", folder.resolve("source").toString(), uri("disk/data"));
            assertEquals(1, put.status());
            assertTrue(put.output().contains("cannot write ") && put.output().contains("/disk/.data.put-"), put.output());
            assertEquals(List.of("memo"), List.of(disk.toFile().list()));

            assertTrue(mount(disk, "remount,size=4m"));
            Result roomy = jobs(List.of(), "words", "in");
            expectSame(plain, roomy);
            assertTrue(replayed(roomy)[0] >= 1 && replayed(roomy)[0] < replayed(roomy)[1], roomy.ended.output());
            Result last = jobs(List.of(), "words", "in");
            expectSame(plain, last);
            assertEquals(replayed(last)[1], replayed(last)[0]);
        } finally {
            new ProcessBuilder("umount", disk.toString()).start().waitFor();
        }
    }

    private static boolean mount(Path disk, String options) throws Exception {
        return new ProcessBuilder("mount", "-t", "tmpfs", "-o", options, "onefold", disk.toString())
            .start().waitFor() == 0;
    }

    @Test
    void aDamagedEntryIsNamedComputedAndReplaced() throws Exception {
        put(text(4, 6000), "in");
        Result first = jobs(List.of(), "combined", "in");
        Path plain = plain("combined", "in");
        List<Path> entries = entries();
        byte[] bytes = Files.readAllBytes(entries.get(0));
        bytes[bytes.length / 2] ^= 1;
        Files.write(entries.get(0), bytes);
        Result damaged = jobs(List.of(), "combined", "in");
        expectSame(plain, damaged);
        assertTrue(damaged.ended.output().contains(entries.get(0).getFileName() + " is damaged"), damaged.ended.output());
        assertEquals(1, damaged.ended.counter("splits computed"));
        Result again = jobs(List.of(), "combined", "in");
        expectSame(plain, again);
        assertEquals(0, again.ended.counter("splits computed"));
        assertEquals(replayed(first)[1], again.ended.counter("splits replayed"));
    }

    @Test
    void resultsInTheFormatOfAnotherReleaseAreComputedAndLeftToIt() throws Exception {
        put(text(10, 3000), "in");
        Result first = jobs(List.of(), "combined", "in");
        List<Path> theirs = new ArrayList<>();
        for (Path entry : entries()) {
            theirs.add(Files.move(entry, entry.resolveSibling(entry.getFileName() + ".2")));
        }
        Result second = jobs(List.of(), "combined", "in");
        expectSame(plain("combined", "in"), second);
        long splits = replayed(first)[1];
        assertTrue(second.ended.output().contains(
            splits + " of them have a result in the format of another release of onefold"), second.ended.output());
        assertEquals(splits, second.ended.counter("splits computed"));
        assertEquals(2 * splits, entries().size());
        assertTrue(entries().containsAll(theirs));
    }

    private List<Path> entries() throws IOException {
        try (Stream<Path> files = Files.walk(folder.resolve("memo/entries"))) {
            return files.filter(Files::isRegularFile).toList();
        }
    }

    @Test
    void verificationPassesForAFunctionOfTheInputAndFailsLoudlyForAnother() throws Exception {
        put(text(5, 3000), "in");
        jobs(List.of(), "combined", "in");
        Result verified = jobs(List.of("--verify", "100%"), "combined", "in");
        expectSame(plain("combined", "in"), verified);
        assertEquals(replayed(verified)[1], verified.ended.counter("splits verified"));

        assertEquals(0, jobs(List.of(), "random", "in").ended.status());
        Result random = jobs(List.of("--verify", "100%"), "random", "in");
        assertNotEquals(0, random.ended.status());
        assertTrue(random.ended.output().contains("the memo and the mapper differ"), random.ended.output());
    }

    @Test
    void anotherJarPropertyOrCacheFileIsAnotherJob() throws Exception {
        put(text(6, 3000), "in");
        Files.writeString(folder.resolve("cache"), "one");
        jobs(List.of(), "combined", "in", uri("cache"));
        assertEquals(replayed(jobs(List.of(), "combined", "in", uri("cache")))[1],
            replayed(jobs(List.of(), "combined", "in", uri("cache")))[0]);
        assertEquals(0, replayed(jobs(List.of(), "words", "in", uri("cache")))[0]);
        Files.writeString(folder.resolve("cache"), "two");
        assertEquals(0, replayed(jobs(List.of(), "combined", "in", uri("cache")))[0]);
        Program.jarOf(jar, Jobs.class, Jobs.Words.class, Jobs.Words.Seen.class, Jobs.Sum.class, Jobs.OldWords.class,
            LocalRunTest.class);
        Result otherJar = jobs(List.of(), "combined", "in", uri("cache"));
        assertEquals(0, replayed(otherJar)[0]);
        Program.Ended explained = program.onefold("explain", "--memo", uri("memo"), "words", uri("in"));
        assertTrue(explained.output().contains("hit\tcomputed before"), explained.output());
    }

    @Test
    void filesWithoutAManifestAreReadOnceAndSharedSplitsAreFound() throws Exception {
        String text = text(7, 6000);
        Files.createDirectories(folder.resolve("data"));
        Files.writeString(folder.resolve("source"), text);
        Program.Ended shared = program.onefold("put", "--mean", "16KiB", "--shared",
            folder.resolve("source").toString(), uri("data/v1"));
        assertEquals(0, shared.status(), shared.output());
        Files.writeString(folder.resolve("plainfile"), text);
        Path plain = plain("combined", "plainfile");

        expectSame(plain, jobs(List.of(), "combined", "data/v1"));
        Result unlisted = jobs(List.of(), "combined", "plainfile");
        expectSame(plain, unlisted);
        assertTrue(unlisted.ended.output().contains("has no manifest of splits; reading it once"), unlisted.ended.output());
        Result folderOfShared = jobs(List.of(), "combined", "data");
        expectSame(plain, folderOfShared);
        assertEquals(replayed(folderOfShared)[1], replayed(folderOfShared)[0]);

        Program.Ended diff = program.onefold("diff", uri("data/v1"), uri("data/v1"));
        assertTrue(diff.output().contains("0 of "), diff.output());
        Program.Ended listed = program.onefold("ls", uri("data/v1"));
        assertTrue(listed.output().lines().count() > SPLITS_AT_LEAST, listed.output());
        Program.Ended collected = program.onefold("gc", "--memo", uri("memo"), uri("data/v1"));
        assertTrue(collected.output().contains("deleted 1 files") || collected.output().contains("deleted 2 files"),
            collected.output());
        Program.Ended stats = program.onefold("stats", "--memo", uri("memo"));
        assertTrue(stats.output().contains("words\t3\t"), stats.output());
    }

    @Test
    void wrongWordsAreToldWithTheUsage() throws Exception {
        for (String[] words : new String[][] {{}, {"nonsense"}, {"run"}, {"run", "--memo", "x"}, {"put", "a"},
                {"put", "--nope", "a", "b"}, {"run", "--memo", "x", "--verify", "200%", "--", jar.toString()}}) {
            Program.Ended ended = program.onefold(words);
            assertEquals(2, ended.status(), ended.output());
        }
        Program.Ended missing = program.onefold("run", "--memo", uri("memo"), "--", "no-such.jar", "X");
        assertEquals(1, missing.status());
        assertTrue(missing.output().contains("no-such.jar is no file"), missing.output());
    }
}
