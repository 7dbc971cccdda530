package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Hadoop's own example programs on HDFS and YARN: name node, data node, resource and node manager. */
class YarnRunTest {
    private static final String DRIVER = "org.apache.hadoop.examples.ExampleDriver";
    private static final AtomicInteger OUTPUTS = new AtomicInteger();

    @TempDir
    private static java.nio.file.Path folder;
    private static MiniDFSCluster hdfs;
    private static MiniYARNCluster yarn;
    private static FileSystem fs;
    private static Program program;

    @BeforeAll
    static void start() throws IOException {
        Configuration server = new YarnConfiguration();
        server.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.resolve("hdfs").toString());
        hdfs = new MiniDFSCluster.Builder(server).numDataNodes(1).build();
        hdfs.waitActive();
        fs = hdfs.getFileSystem();
        server.set("fs.defaultFS", hdfs.getURI().toString());
        Settings.ofYarn(server);
        yarn = new MiniYARNCluster("onefold", 1, 1, 1);
        System.setProperty("test.build.data", folder.resolve("yarn").toString());
        yarn.init(server);
        yarn.start();

        Configuration client = new Configuration(yarn.getConfig());
        client.set("fs.defaultFS", hdfs.getURI().toString());
        Settings.ofJobs(client);
        program = new Program(folder, client, hdfs.getURI() + "/memo");
    }

    @AfterAll
    static void stop() {
        if (yarn != null) {
            yarn.stop();
        }
        if (hdfs != null) {
            hdfs.shutdown();
        }
    }

    static String text(int seed, int lines) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < lines; i++) {
            text.append(random.nextInt(900)).append('\t').append(random.nextInt(100_000)).append('\n');
        }
        return text.toString();
    }

    private static void put(String text, String name) throws Exception {
        java.nio.file.Path source = Files.writeString(folder.resolve("source" + name.replace('/', '-')), text, StandardCharsets.UTF_8);
        Program.Ended ended = program.onefold("put", "--mean", "64KiB", "--overwrite", source.toString(), name);
        assertEquals(0, ended.status(), ended.output());
    }

    /** The lines of each part of an output. */
    static Map<String, List<String>> parts(FileSystem fs, String output) throws IOException {
        Map<String, List<String>> parts = new TreeMap<>();
        for (FileStatus status : fs.listStatus(new Path(output))) {
            if (status.getPath().getName().startsWith("part")) {
                try (FSDataInputStream in = fs.open(status.getPath())) {
                    String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
                    parts.put(status.getPath().getName(), new ArrayList<>(text.lines().toList()));
                }
            }
        }
        assertFalse(parts.isEmpty());
        return parts;
    }

    /** Runs an example plainly and twice with the memo, and compares; then once more with changed input. */
    private static List<String> compare(String name, UnaryOperator<Map<String, List<String>>> order, List<String> options,
            String... last) throws Exception {
        String text = text(name.hashCode(), 30_000);
        String input = "/in-" + name;
        put(text, input);
        String plain = output();
        Program.Ended ended = program.plain(DRIVER, words(name, options, input, plain, last));
        assertEquals(0, ended.status(), ended.output());
        List<String> replayed = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            String output = output();
            Program.Ended with = withMemo(words(name, options, input, output, last));
            assertEquals(order.apply(parts(fs, plain)), order.apply(parts(fs, output)), name);
            replayed.add(with.replayed().get(0));
        }
        String[] second = replayed.get(1).split("/");
        assertTrue(replayed.get(0).startsWith("0/"), replayed.toString());
        assertEquals(second[0], second[1]);
        assertTrue(Integer.parseInt(second[1]) >= 3, replayed.toString());
        return replayed;
    }

    private static Program.Ended withMemo(String[] words) throws Exception {
        List<String> all = new ArrayList<>(List.of(Program.examples()));
        all.addAll(List.of(words));
        Program.Ended ended = program.run(List.of(), all.toArray(String[]::new));
        assertEquals(0, ended.status(), ended.output());
        return ended;
    }

    private static String output() {
        return "/out" + OUTPUTS.getAndIncrement();
    }

    private static String[] words(String name, List<String> options, String input, String output, String... last) {
        List<String> words = new ArrayList<>(List.of(name));
        words.addAll(options);
        words.add(input);
        words.add(output);
        words.addAll(List.of(last));
        return words.toArray(String[]::new);
    }

    private static Map<String, List<String>> sorted(Map<String, List<String>> parts) {
        parts.values().forEach(Collections::sort);
        return parts;
    }

    @Test
    void wordCountEqualsThePlainJobs() throws Exception {
        compare("wordcount", parts -> parts, List.of());
    }

    @Test
    void grepEqualsThePlainJobsAndItsSecondJobRunsPlainly() throws Exception {
        // its second job sorts by frequency, and leaves the order of equal frequencies open
        compare("grep", YarnRunTest::sorted, List.of(), "12[0-9]");
    }

    @Test
    void sortEqualsThePlainJobs() throws Exception {
        compare("sort", YarnRunTest::sorted, List.of("-r", "2",
            "-inFormat", "org.apache.hadoop.mapreduce.lib.input.KeyValueTextInputFormat",
            "-outFormat", "org.apache.hadoop.mapreduce.lib.output.TextOutputFormat",
            "-outKey", "org.apache.hadoop.io.Text", "-outValue", "org.apache.hadoop.io.Text"));
    }

    @Test
    void secondarySortEqualsThePlainJobs() throws Exception {
        compare("secondarysort", parts -> parts, List.of());
    }
}
