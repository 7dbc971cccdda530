package onefold.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import onefold.incremental.Refused;
import onefold.incremental.command.Commands;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.Tuple2;

class IncrementalTest {
    private static JavaSparkContext context;

    @TempDir
    private Path folder;
    private Path input;

    @BeforeAll
    static void start() {
        context = new JavaSparkContext(new SparkConf().setMaster("local[2]").setAppName("test")
            .set("spark.ui.enabled", "false").set("spark.driver.host", "localhost"));
    }

    @AfterAll
    static void stop() {
        context.stop();
    }

    @BeforeEach
    void write() throws IOException {
        input = folder.resolve("input");
        write(0);
    }

    /** Lines of numbers, of which {@code changed} differ from those of 0. */
    private void write(int changed) throws IOException {
        Random random = new Random(5);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 8000; i++) {
            text.append("word").append(random.nextInt(500)).append(" word").append(random.nextInt(500)).append('\n');
        }
        text.insert(0, "other line\n".repeat(changed));
        Files.write(input, text.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static Iterator<Tuple2<String, Integer>> pairs(Iterator<String> lines) {
        Iterable<String> all = () -> lines;
        return java.util.stream.StreamSupport.stream(all.spliterator(), false)
            .flatMap(line -> Arrays.stream(line.split(" "))).map(word -> new Tuple2<>(word, 1)).iterator();
    }

    private Incremental incremental() {
        return Incremental.of(context, input.toUri().toString()).memo(folder.resolve("memo").toUri().toString())
            .splits("lines", "4KiB");
    }

    private Map<String, Integer> plain() {
        return new TreeMap<>(context.textFile(input.toUri().toString()).mapPartitionsToPair(IncrementalTest::pairs)
            .reduceByKey(Integer::sum).collectAsMap());
    }

    private static Map<String, Integer> counts(JavaPairRDD<String, Integer> rdd) {
        return new TreeMap<>(rdd.collectAsMap());
    }

    @Test
    void wordCountIsThatOfThePlainJobAndComputesOnlyWhatChanged() throws IOException {
        for (int round = 0; round < 3; round++) {
            write(round / 2);
            Incremental.Planned<JavaPairRDD<String, Integer>> planned =
                incremental().mapPartitions(IncrementalTest::pairs).reduceByKey(Integer::sum);
            assertEquals(plain(), counts(planned.rdd()));
            Plan plan = planned.plan();
            assertTrue(plan.hits() + plan.misses() > 15, plan.toString());
            assertEquals(round == 0, plan.hits() == 0, plan.toString());
            assertTrue(plan.misses() <= (round == 0 ? 1000 : 2 * (round / 2)), plan.toString());
        }
    }

    @Test
    void theTreeReducesAsThePlainJobDoesAndComputesOnePath() throws IOException {
        for (int round = 0; round < 3; round++) {
            write(round / 2);
            Incremental.Planned<JavaPairRDD<String, Integer>> planned =
                incremental().mapPartitions(IncrementalTest::pairs).reduceByKeyInTree(Integer::sum, 2);
            assertEquals(plain(), counts(planned.rdd()));
            Plan plan = planned.plan();
            assertEquals(round == 1, plan.nodes() == 0, plan.toString());
            assertEquals(round == 0, plan.nodes() == plan.allNodes(), plan.toString());
        }
    }

    @Test
    void gcKeepsTheNodesOfTreesOverTheFilesThatAreNeededAndNoOthers() throws Exception {
        Path other = folder.resolve("other");
        Files.writeString(other, "another line\n".repeat(3000));
        Incremental both = Incremental.of(context, input.toUri().toString(), other.toUri().toString())
            .memo(folder.resolve("memo").toUri().toString()).splits("lines", "4KiB");
        for (Incremental job : new Incremental[] {incremental(), both}) {
            job.mapPartitions(IncrementalTest::pairs).reduceByKeyInTree(Integer::sum, 2).rdd().count();
        }
        gc(input, other);
        for (Incremental job : new Incremental[] {incremental(), both}) {
            Plan plan = job.mapPartitions(IncrementalTest::pairs).reduceByKeyInTree(Integer::sum, 2).plan();
            assertEquals(0, plan.misses() + plan.nodes(), plan.toString());
        }
        gc(other);
        Plan plan = incremental().mapPartitions(IncrementalTest::pairs).reduceByKeyInTree(Integer::sum, 2).plan();
        assertEquals(0, plan.hits(), plan.toString());
        assertEquals(plan.allNodes(), plan.nodes(), plan.toString());
    }

    /** As if the application, whose lease covers all that it planned with, had ended. */
    private void gc(Path... needed) throws Exception {
        try (var leases = Files.list(folder.resolve("memo/leases"))) {
            for (Path lease : leases.toList()) {
                Files.delete(lease);
            }
        }
        Configuration conf = new Configuration();
        conf.set("onefold.split.mean", "4KiB");
        List<String> words = new ArrayList<>(List.of("gc", "--memo", folder.resolve("memo").toUri().toString()));
        for (Path file : needed) {
            words.add(file.toUri().toString());
        }
        assertEquals(0, new Commands().run(conf, words, System.out, System.err));
    }

    @Test
    void valuesAreCombinedInTheOrderOfTheInput() throws IOException {
        Map<Integer, String> expected = Map.of(0, String.join("", Files.readAllLines(input)));
        for (int round = 0; round < 2; round++) {
            Map<Integer, String> got = incremental().mapPartitions(IncrementalTest::lines)
                .<Integer, String>reduceByKeyInTree(String::concat, 1).rdd().collectAsMap();
            assertEquals(expected, got);
        }
    }

    private static Iterator<Tuple2<Integer, String>> lines(Iterator<String> lines) {
        Iterable<String> all = () -> lines;
        return java.util.stream.StreamSupport.stream(all.spliterator(), false)
            .map(line -> new Tuple2<>(0, line)).iterator();
    }

    @Test
    void resultsComeInTheOrderOfTheInput() throws IOException {
        for (int round = 0; round < 3; round++) {
            write(round / 2);
            assertEquals(Files.readAllLines(input),
                incremental().mapPartitions((Iterator<String> lines) -> lines).rdd().rdd().collect());
        }
    }

    @Test
    void aFunctionThatDependsOnMoreThanItsInputFailsTheVerification() throws IOException {
        Incremental verified = incremental().verify(1);
        for (int round = 0; round < 2; round++) {
            assertEquals(16000L, verified.mapPartitions(IncrementalTest::pairs).rdd().rdd().count());
        }
        incremental().mapPartitions(IncrementalTest::unsteady).rdd().rdd().count();
        Exception e = assertThrows(Exception.class,
            () -> verified.mapPartitions(IncrementalTest::unsteady).rdd().rdd().count());
        assertTrue(e.toString().contains("verification failed"), e.toString());
    }

    private static Iterator<Long> unsteady(Iterator<String> lines) {
        return java.util.List.of(System.nanoTime()).iterator();
    }

    @Test
    void aFileThatIsReplacedAfterItsSplitsWereFoundFailsTheJobAndSpoilsNothing() throws IOException {
        Incremental.Planned<JavaPairRDD<String, Integer>> planned = incremental().mapPartitions(IncrementalTest::pairs)
            .reduceByKey(Integer::sum);
        assertTrue(planned.plan().misses() > 0);
        String text = Files.readString(input);
        Files.writeString(input, text.replace("word1", "WORD1"));
        Exception e = assertThrows(Exception.class, () -> planned.rdd().count());
        assertTrue(e.toString().contains(" changed since its splits were found"), e.toString());
        Files.writeString(input, text);
        Incremental.Planned<JavaPairRDD<String, Integer>> again = incremental().mapPartitions(IncrementalTest::pairs)
            .reduceByKey(Integer::sum);
        assertEquals(plain(), counts(again.rdd()));
    }

    @Test
    void anOperationIsZippedWithItself() throws IOException {
        List<String> lines = Files.readAllLines(input);
        for (int round = 0; round < 2; round++) {
            var rdd = incremental().mapPartitions((Iterator<String> own) -> own).rdd().rdd();
            List<Tuple2<String, String>> both = rdd.zip(rdd).collect();
            assertEquals(lines, both.stream().map(pair -> pair._1).toList());
            assertEquals(lines, both.stream().map(pair -> pair._2).toList());
        }
    }

    @Test
    void aFunctionThatCountsInAnAccumulatorRunsWithoutTheMemo() throws IOException {
        var seen = context.sc().longAccumulator();
        for (int round = 0; round < 2; round++) {
            Incremental.Planned<?> planned = incremental().version("1").mapPartitions((Iterator<String> lines) -> {
                seen.add(1);
                return lines;
            }).rdd();
            assertEquals("", planned.plan().memo());
            assertTrue(planned.plan().reason().contains("accumulator"), planned.plan().reason());
        }
    }

    @Test
    void aTreeOverAFileWithAByteOrderMarkIsRefused() throws IOException {
        Files.writeString(input, "\ufeff" + Files.readString(input));
        String message = assertThrows(Refused.class,
            () -> incremental().mapPartitions(IncrementalTest::pairs).reduceByKeyInTree(Integer::sum, 2).plan())
            .getMessage();
        assertTrue(message.contains("/input begins with a byte order mark"), message);
    }

    /** Says that everything belongs to the user alone, as object stores do. */
    public static final class Shared extends RawLocalFileSystem {
        @Override
        public URI getUri() {
            return URI.create("shared:///");
        }
    }

    @Test
    void aMemoWhereOwnersAreNotEnforcedIsRefused() throws IOException {
        context.hadoopConfiguration().setClass("fs.shared.impl", Shared.class, FileSystem.class);
        Incremental shared = Incremental.of(context, input.toUri().toString()).memo("shared:" + folder.resolve("memo"));
        String message = assertThrows(Refused.class,
            () -> shared.mapPartitions(IncrementalTest::pairs).rdd().plan()).getMessage();
        assertTrue(message.contains("is on shared, which has no owners that hold"), message);
    }

    @Test
    void aFolderThatOthersCanWriteIsRefused() throws IOException {
        Path memo = Files.createDirectory(folder.resolve("memo"));
        Files.setPosixFilePermissions(memo, PosixFilePermissions.fromString("rwxrwxr-x"));
        Incremental.Planned<?> planned = incremental().mapPartitions(IncrementalTest::pairs).rdd();
        String message = assertThrows(Refused.class, planned::plan).getMessage();
        assertTrue(message.contains("mode 775, expected") && message.contains("another folder"), message);
    }
}
