package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** A cluster whose name node, data node, resource manager and node manager are processes of their own. */
class ProcessesTest {
    private static final String HDFS = "hdfs";

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path folder;

    @Test
    void aNameNodeThatIsKilledAndStartedAgainLosesNoResult() throws Exception {
        Configuration conf = new Configuration();
        try (Servers servers = new Servers(folder, Map.of())) {
            String uri = servers.hdfs(HDFS, conf);
            servers.yarn(conf);
            servers.startHdfs(HDFS, conf);
            servers.startYarn(conf);
            Settings.ofJobs(conf);
            Program program = new Program(folder, conf, uri + "/memo");

            String text = YarnRunTest.text(1, 30_000);
            Path source = Files.writeString(folder.resolve("source"), text);
            Program.Ended put = program.onefold("put", "--mean", "64KiB", source.toString(), "/in");
            assertEquals(0, put.status(), put.output());
            Program.Ended first = program.run(List.of(), Program.examples(), "wordcount", "/in", "/first");
            assertEquals(0, first.status(), first.output());

            servers.kill("namenode", HDFS);
            servers.startNameNode(HDFS, conf);
            // begins while the name node does
            Program.Ended second = program.run(List.of(), Program.examples(), "wordcount", "/in", "/second");
            assertEquals(0, second.status(), second.output());

            try (FileSystem fs = FileSystem.newInstance(conf)) {
                Map<String, List<String>> expected = Map.of("part-r-00000", counts(text));
                assertEquals(expected, YarnRunTest.parts(fs, "/first"));
                assertEquals(expected, YarnRunTest.parts(fs, "/second"));
            }
            String[] replayed = second.replayed().get(0).split("/");
            assertEquals(replayed[1], replayed[0]);
            assertTrue(first.replayed().get(0).startsWith("0/"), first.output());
            assertTrue(Integer.parseInt(replayed[1]) >= 3, second.output());
        }
    }

    /** What a word count writes. */
    private static List<String> counts(String text) {
        Map<String, Integer> counts = new TreeMap<>();
        text.lines().flatMap(line -> Stream.of(line.split("\\s"))).forEach(word -> counts.merge(word, 1, Integer::sum));
        return counts.entrySet().stream().map(count -> count.getKey() + "\t" + count.getValue()).toList();
    }
}
