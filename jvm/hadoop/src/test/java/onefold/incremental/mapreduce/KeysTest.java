package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeysTest {
    @TempDir
    private Path folder;

    private String keyOf(String property, String value) throws IOException {
        Path jar = folder.resolve("job.jar");
        Files.writeString(jar, "classes");
        JobConf job = new JobConf(new Configuration());
        job.set(property, value);
        return Keys.of(job, jar.toFile()).id();
    }

    @Test
    void cacheFilesOfOneNameAreToldApartAndSoAreTheNamesThatTasksSee() throws IOException {
        Path left = Files.createDirectory(folder.resolve("left")).resolve("part-0");
        Path right = Files.createDirectory(folder.resolve("right")).resolve("part-0");
        Files.writeString(left, "1");
        Files.writeString(right, "2");
        String files = MRJobConfig.CACHE_FILES;
        String key = keyOf(files, left + "#a," + right + "#b");
        assertNotEquals(key, keyOf(files, left + "#b," + right + "#a"));
        Files.writeString(left, "3");
        assertNotEquals(key, keyOf(files, left + "#a," + right + "#b"));
        Files.writeString(left, "1");
        assertEquals(key, keyOf(files, left + "#a," + right + "#b"));
    }

    @Test
    void aPropertyOfTheJobsOwnCountsWhateverItBeginsWith() throws IOException {
        for (String name : new String[] {"net.acme.threshold", "ha.ha", "rpc.limit", "acme.x"}) {
            assertNotEquals(keyOf(name, "5"), keyOf(name, "6"), name);
        }
        assertEquals(keyOf("mapreduce.job.name", "a"), keyOf("mapreduce.job.name", "b"));
    }

    @Test
    void aMapperThatLooksAtWhatTheKeyLeavesOutIsSeen() {
        Looked looked = new Looked();
        WatchedConf conf = new WatchedConf(new JobConf(), looked);
        conf.get("io.sort.factor");
        assertNull(looked.first());
        conf.getJobName();
        assertEquals("the property mapreduce.job.name", looked.first());
    }
}
