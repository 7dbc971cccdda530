package onefold.incremental.layout;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import onefold.incremental.Inputs;
import onefold.incremental.Refused;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PutTest {
    private static final SplitSizes SIZES = new SplitSizes(256, 1024, 4096);

    private final Configuration conf = new Configuration();
    @TempDir
    private java.nio.file.Path folder;

    private Path at(String name) {
        return new Path(folder.resolve(name).toUri());
    }

    private Put put(boolean overwrites) {
        return new Put(conf, SIZES, Records.LINES, overwrites);
    }

    private static InputStream in(byte[] data) {
        return new ByteArrayInputStream(data);
    }

    private byte[] read(Version version) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (SplitRef split : version.splits()) {
            try (InputStream in = split.open(conf)) {
                byte[] content = in.readAllBytes();
                assertEquals(split.fingerprint(), Fingerprint.of(Fingerprint.digest().digest(content)));
                assertEquals(split.position(), bytes.size());
                bytes.writeBytes(content);
            }
        }
        return bytes.toByteArray();
    }

    @Test
    void aFileIsOrdinaryAndItsManifestHasItsSplits() throws IOException {
        byte[] data = Inputs.lines(1, 50_000);
        put(false).blocks(in(data), "data", at("a"));
        assertArrayEquals(data, Files.readAllBytes(folder.resolve("a")));
        Version version = Version.find(conf, at("a")).orElseThrow();
        assertArrayEquals(data, read(version));
        assertEquals(version.manifest(), Version.scan(conf, at("a"), SIZES, Records.LINES).manifest());
        assertTrue(version.splits().size() > 20);
        assertEquals(Set.of("a", ".a.crc", ".a.onefold", "..a.onefold.crc"), names());
    }

    private Set<String> names() throws IOException {
        try (var files = Files.list(folder)) {
            return new HashSet<>(files.map(file -> file.getFileName().toString()).toList());
        }
    }

    @Test
    void aNameThatIsTakenIsRefusedUnlessOverwritten() throws IOException {
        put(false).blocks(in(Inputs.lines(1, 5000)), "data", at("a"));
        String message = assertThrows(Refused.class,
            () -> put(false).blocks(in(new byte[9]), "data", at("a"))).getMessage();
        assertTrue(message.contains("--overwrite"), message);
        byte[] data = Inputs.lines(2, 5000);
        put(true).blocks(in(data), "data", at("a"));
        assertArrayEquals(data, read(Version.find(conf, at("a")).orElseThrow()));
        assertThrows(Refused.class, () -> put(true).blocks(in(data), "data", at(".hidden")));
        assertThrows(Refused.class, () -> put(true).blocks(in(data), "data", at("")));
    }

    @Test
    void aManifestThatDoesNotFitItsFileIsRefused() throws IOException {
        put(false).blocks(in(Inputs.lines(1, 5000)), "data", at("a"));
        // not by way of Hadoop, which would see that its checksums are gone
        Files.delete(folder.resolve(".a.crc"));
        Files.write(folder.resolve("a"), "more\n".getBytes(StandardCharsets.UTF_8), StandardOpenOption.APPEND);
        String message = assertThrows(Refused.class, () -> Version.find(conf, at("a"))).getMessage();
        assertTrue(message.contains("bytes, expected") && message.contains("run put again"), message);

        put(false).blocks(in(Inputs.lines(1, 5000)), "data", at("b"));
        Files.setLastModifiedTime(folder.resolve("b"), java.nio.file.attribute.FileTime.fromMillis(1000));
        message = assertThrows(Refused.class, () -> Version.find(conf, at("b"))).getMessage();
        assertTrue(message.contains("modified at 1000 ms"), message);
    }

    @Test
    void bytesThatChangedSinceTheirSplitWasFoundAreRefusedAtTheLastOne() throws IOException {
        Files.write(folder.resolve("a"), Inputs.lines(1, 50_000));
        SplitRef split = Version.scan(conf, at("a"), SIZES, Records.LINES).splits().get(3);
        Files.write(folder.resolve("a"), Inputs.lines(2, 50_000));
        try (InputStream in = split.open(conf)) {
            assertEquals(split.length() - 1, in.readNBytes((int) split.length() - 1).length);
            String message = assertThrows(Refused.class, in::read).getMessage();
            assertTrue(message.contains(at("a") + " changed since its splits were found"), message);
        }
    }

    @Test
    void aFileWithoutAManifestHasNoVersionAndOneIsFoundByReading() throws IOException {
        byte[] data = Inputs.lines(3, 10_000);
        Files.write(folder.resolve("plain"), data);
        assertEquals(Optional.empty(), Version.find(conf, at("plain")));
        Version version = Version.scan(conf, at("plain"), SIZES, Records.LINES);
        assertTrue(version.isScanned());
        assertArrayEquals(data, read(version));
    }

    @Test
    void sharedSplitsAreKeptOnceAndReclaimedWhenNoManifestListsThem() throws IOException {
        byte[] old = Inputs.lines(1, 100_000);
        byte[] inserted = "one more line\n".getBytes(StandardCharsets.UTF_8);
        byte[] changed = Inputs.concat(java.util.Arrays.copyOf(old, 40_000), inserted,
            java.util.Arrays.copyOfRange(old, 40_000, old.length));
        Files.write(folder.resolve("old"), old);
        Files.write(folder.resolve("changed"), changed);
        Put.Result first = put(false).shared(at("old"), at("data/v1"));
        Put.Result second = put(false).shared(at("changed"), at("data/v2"));
        assertEquals(new HashSet<>(first.version().manifest().entries()).size(), first.writtenSplits());
        assertTrue(second.writtenSplits() <= 4, second.toString());
        assertArrayEquals(old, read(Version.find(conf, at("data/v1")).orElseThrow()));
        assertArrayEquals(changed, read(Version.find(conf, at("data/v2")).orElseThrow()));

        SharedSplits splits = new SharedSplits(conf, at("data"));
        assertEquals(new Reclaimed(0, 0, 0), splits.reclaim(false));
        Files.delete(folder.resolve("data/.v1.onefold"));
        assertTrue(splits.reclaim(true).files() > 0);
        assertTrue(splits.reclaim(false).files() > 0);
        assertEquals(new Reclaimed(0, 0, 0), splits.reclaim(false));
        assertArrayEquals(changed, read(Version.find(conf, at("data/v2")).orElseThrow()));
    }

    @Test
    void formatsInWhichNothingRepeatsAreRefusedWithTheReason() throws IOException {
        String[][] formats = {{"\u001f\u008b\b", "gzip"}, {"Obj\u0001", "Avro"}, {"PAR1", "Parquet"}, {"ORC", "ORC"},
            {"SEQ\u0006", "SequenceFile"}, {"BZh9", "bzip2"}};
        for (String[] format : formats) {
            byte[] data = Inputs.concat(format[0].getBytes(StandardCharsets.ISO_8859_1), new byte[100]);
            String message = assertThrows(Refused.class, () -> put(false).blocks(in(data), "data", at("x"))).getMessage();
            assertTrue(message.contains(format[1]) && message.startsWith("data is"), message);
        }
        assertFalse(Files.exists(folder.resolve("x")));
        assertEquals(Set.of(), names());
    }

    @Test
    void aFileWithoutRecordsIsAVersionWithoutSplits() throws IOException {
        Put.Result result = put(false).blocks(in(new byte[0]), "data", at("empty"));
        assertEquals(0, result.version().splits().size());
        assertEquals(0, Version.find(conf, at("empty")).orElseThrow().splits().size());
    }
}
