package onefold.incremental.layout;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import onefold.incremental.Inputs;
import onefold.incremental.Refused;
import onefold.incremental.files.Leases;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Layouts and the memo on HDFS: a name node and a data node of Hadoop's own. */
class HdfsTest {
    private static final SplitSizes SIZES = new SplitSizes(25_000, 100_000, 400_000);

    @TempDir
    private static java.nio.file.Path folder;
    private static MiniDFSCluster cluster;
    private static DistributedFileSystem fs;
    private static Configuration conf;

    @BeforeAll
    static void start() throws IOException {
        Configuration server = new Configuration();
        server.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.resolve("hdfs").toString());
        cluster = new MiniDFSCluster.Builder(server).numDataNodes(1).build();
        cluster.waitActive();
        fs = cluster.getFileSystem();
        conf = new Configuration(server);
        conf.set("fs.defaultFS", cluster.getURI().toString());
    }

    @AfterAll
    static void stop() {
        if (cluster != null) {
            cluster.shutdown();
        }
    }

    private static Put.Result put(byte[] data, String name, boolean overwrites) throws IOException {
        return new Put(conf, SIZES, Records.LINES, overwrites)
            .blocks(new ByteArrayInputStream(data), "data", new Path(name));
    }

    @Test
    void blocksEndWhereSplitsEndAndTheFileIsOrdinary() throws IOException {
        byte[] data = Inputs.lines(1, 2_000_000);
        Version version = put(data, "/blocks/a", false).version();
        BlockLocation[] blocks = fs.getFileBlockLocations(new Path("/blocks/a"), 0, Long.MAX_VALUE);
        List<Long> lengths = Arrays.stream(blocks).map(BlockLocation::getLength).toList();
        assertEquals(version.splits().stream().map(SplitRef::length).toList(), lengths);
        assertTrue(lengths.size() > 5);
        try (InputStream in = fs.open(new Path("/blocks/a"))) {
            assertArrayEquals(data, in.readAllBytes());
        }
        assertEquals(version.manifest(), Version.find(conf, new Path("/blocks/a")).orElseThrow().manifest());
        assertEquals(2, fs.listStatus(new Path("/blocks")).length);
    }

    @Test
    void anAppendedFileNoLongerFitsItsManifest() throws IOException {
        put(Inputs.lines(1, 300_000), "/append/a", false);
        try (OutputStream out = fs.append(new Path("/append/a"))) {
            out.write('\n');
        }
        String message = assertThrows(Refused.class, () -> Version.find(conf, new Path("/append/a"))).getMessage();
        assertTrue(message.contains("/append/.a.onefold does not fit"), message);
        put(Inputs.lines(2, 300_000), "/append/a", true);
        assertTrue(Version.find(conf, new Path("/append/a")).isPresent());
    }

    @Test
    void sharedSplitsTakeNoSpaceTwice() throws IOException {
        java.nio.file.Path local = folder.resolve("shared-source");
        byte[] data = Inputs.lines(3, 2_000_000);
        Files.write(local, data);
        Put put = new Put(conf, SIZES, Records.LINES, false);
        put.shared(new Path(local.toUri()), new Path("/shared/v1"));
        data[1_000_000] = 'X';
        Files.write(local, data);
        Put.Result second = put.shared(new Path(local.toUri()), new Path("/shared/v2"));
        assertTrue(second.writtenSplits() <= 3 && second.writtenSplits() >= 1, second.toString());
        long length = 0;
        for (SplitRef split : Version.find(conf, new Path("/shared/v2")).orElseThrow().splits()) {
            try (InputStream in = split.open(conf)) {
                byte[] content = in.readAllBytes();
                assertArrayEquals(Arrays.copyOfRange(data, (int) length, (int) length + content.length), content);
                length += content.length;
            }
        }
        assertEquals(data.length, length);
    }

    @Test
    void entriesArePublishedOnceAndReclaimedWhenNoJobReliesOnThem() throws IOException {
        Memo memo = Memo.at(conf, new Path("/memo"));
        memo.ensureWritable();
        JobKey job = JobKey.of(Map.of("a", "b"));
        Fingerprint split = Fingerprint.of(new byte[32]);
        for (boolean isFirst : new boolean[] {true, false}) {
            try (Memo.NewEntry entry = memo.create(job, split, 1)) {
                entry.out().write(7);
                assertEquals(isFirst, entry.commit());
            }
        }
        assertEquals(0, fs.listStatus(new Path("/memo/tmp")).length);
        Optional<InputStream> found = memo.read(job, split, 1);
        assertArrayEquals(new byte[] {7}, found.orElseThrow().readAllBytes());
        try (Leases.Lease lease = memo.lease()) {
            lease.narrow(Set.of(Memo.name(job, split)));
            assertEquals(1, memo.reclaim(present -> Set.of(), false).leased());
        }
        assertEquals(1, memo.reclaim(present -> Set.of(), false).files());
        assertFalse(memo.read(job, split, 1).isPresent());
    }

    @Test
    void aNameNodeThatRestartsKeepsManifestsAndEntries() throws IOException {
        byte[] data = Inputs.lines(4, 300_000);
        Version version = put(data, "/restart/a", false).version();
        cluster.restartNameNode(true);
        assertEquals(version.manifest(), Version.find(conf, new Path("/restart/a")).orElseThrow().manifest());
    }
}
