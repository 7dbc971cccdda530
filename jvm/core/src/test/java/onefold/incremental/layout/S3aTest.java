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
import java.util.Map;
import java.util.Set;
import onefold.incremental.Inputs;
import onefold.incremental.Refused;
import onefold.incremental.S3Server;
import onefold.incremental.files.Leases;
import onefold.incremental.files.NewFile;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Layouts and the memo on S3A, by conditional requests to a server of its own. */
class S3aTest {
    private static final SplitSizes SIZES = new SplitSizes(25_000, 100_000, 400_000);

    @TempDir
    private static java.nio.file.Path folder;
    private static S3Server server;
    private static Configuration conf;
    private static FileSystem fs;

    @BeforeAll
    static void start() throws Exception {
        server = S3Server.start();
        if (server == null) {
            System.out.println("skipped: ONEFOLD_S3_SERVER names no S3 server; `cargo xtask test` installs one");
        }
        Assumptions.assumeTrue(server != null);
        conf = new Configuration();
        server.tell(conf, folder);
        fs = at("").getFileSystem(conf);
    }

    @AfterAll
    static void stop() {
        if (server != null) {
            server.close();
        }
    }

    private static Path at(String name) {
        return new Path("s3a://bucket/" + name);
    }

    private static String read(Path path) throws IOException {
        try (InputStream in = fs.open(path)) {
            return new String(in.readAllBytes());
        }
    }

    @Test
    void ofTwoWritersThatBothBeganOneTheFirstToCommitWins() throws IOException {
        Path target = at("race/name");
        try (NewFile first = NewFile.create(fs, target, at("race/tmp"));
                NewFile second = NewFile.create(fs, target, at("race/tmp"))) {
            first.out().write('1');
            second.out().write('2');
            assertFalse(fs.exists(target));
            assertTrue(second.commit());
            assertFalse(first.commit());
        }
        assertEquals("2", read(target));
        try (NewFile third = NewFile.create(fs, target, at("race/tmp"))) {
            third.out().write('3');
        }
        assertEquals("2", read(target));
        assertEquals(1, fs.listStatus(at("race")).length);
    }

    @Test
    void entriesArePublishedOnceAndReclaimedWhenNoJobReliesOnThem() throws IOException {
        Memo memo = Memo.at(conf, at("memo"));
        memo.ensureWritable();
        JobKey job = JobKey.of(Map.of("a", "b"));
        Fingerprint split = Fingerprint.of(new byte[32]);
        for (boolean isFirst : new boolean[] {true, false}) {
            try (Memo.NewEntry entry = memo.create(job, split, 1)) {
                entry.out().write(isFirst ? 7 : 8);
                assertEquals(isFirst, entry.commit());
            }
        }
        assertEquals(Set.of(split), memo.entries(job).keySet());
        try (InputStream in = memo.read(job, split, 1).orElseThrow()) {
            assertArrayEquals(new byte[] {7}, in.readAllBytes());
        }
        try (Leases.Lease lease = memo.lease()) {
            lease.narrow(Set.of(Memo.name(job, split)));
            assertEquals(1, memo.reclaim(present -> Set.of(), false).leased());
        }
        assertTrue(memo.read(job, split, 1).isPresent());
        assertEquals(1, memo.reclaim(present -> Set.of(), false).files());
        assertFalse(memo.read(job, split, 1).isPresent());
    }

    @Test
    void sharedSplitsAreWrittenOnceAndReadByEachVersion() throws IOException {
        java.nio.file.Path local = folder.resolve("source");
        byte[] data = Inputs.lines(3, 2_000_000);
        Files.write(local, data);
        Put put = new Put(conf, SIZES, Records.LINES, false);
        put.shared(new Path(local.toUri()), at("shared/v1"));
        data[1_000_000] = 'X';
        Files.write(local, data);
        Put.Result second = put.shared(new Path(local.toUri()), at("shared/v2"));
        assertTrue(second.writtenSplits() >= 1 && second.writtenSplits() <= 3, second.toString());
        assertArrayEquals(data, bytes(Version.find(conf, at("shared/v2")).orElseThrow()));
        assertEquals(0, new SharedSplits(conf, at("shared")).reclaim(false).files());
        fs.delete(Version.manifestPath(at("shared/v1")), false);
        long unneeded = new SharedSplits(conf, at("shared")).reclaim(false).files();
        assertTrue(unneeded >= 1 && unneeded <= 3, unneeded + " files");
        assertArrayEquals(data, bytes(Version.find(conf, at("shared/v2")).orElseThrow()));
    }

    private static byte[] bytes(Version version) throws IOException {
        java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
        for (SplitRef split : version.splits()) {
            try (InputStream in = split.open(conf)) {
                in.transferTo(bytes);
            }
        }
        return bytes.toByteArray();
    }

    @Test
    void aFileAndItsManifestFitUntilTheFileIsWrittenAnew() throws Exception {
        byte[] data = Inputs.lines(5, 1_000_000);
        new Put(conf, SIZES, Records.LINES, false).blocks(new ByteArrayInputStream(data), "data", at("plain/a"));
        Version version = Version.find(conf, at("plain/a")).orElseThrow();
        assertTrue(version.splits().size() > 5);
        assertArrayEquals(data, bytes(version));
        // S3 has times of whole seconds
        Thread.sleep(1100);
        try (OutputStream out = fs.create(at("plain/a"), true)) {
            out.write(data);
        }
        String message = assertThrows(Refused.class, () -> Version.find(conf, at("plain/a"))).getMessage();
        assertTrue(message.contains("does not fit"), message);
    }
}
