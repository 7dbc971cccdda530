package onefold.incremental.layout;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import onefold.incremental.Refused;
import onefold.incremental.files.CheckedOutput;
import onefold.incremental.files.Leases;
import onefold.incremental.files.NewFile;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag;
import org.apache.hadoop.io.IOUtils;

/** Writes a file and its manifest. */
public final class Put {
    /** Block sizes are multiples of this. */
    private static final long BLOCK_UNIT = 1 << 20;

    private final Configuration conf;
    private final SplitSizes sizes;
    private final Records records;
    private final boolean overwrites;

    /** A writer of files that are split so; without {@code overwrites} it refuses a name that is taken. */
    public Put(Configuration conf, SplitSizes sizes, Records records, boolean overwrites) {
        this.conf = conf;
        this.sizes = sizes;
        this.records = records;
        this.overwrites = overwrites;
    }

    /**
     * What a {@code put} did.
     *
     * @param writtenSplits splits that were written; fewer than all where they are shared
     */
    public record Result(Version version, long writtenSplits, long writtenBytes) {
    }

    /**
     * Writes an ordinary file whose blocks end where splits end, if the file system is HDFS.
     *
     * <p>The file appears under its name when it is whole, and its manifest after it. A crash between
     * leaves a file without a manifest.
     *
     * @param name what to call the input in messages
     */
    public Result blocks(InputStream in, String name, Path target) throws IOException {
        FileSystem fs = target.getFileSystem(conf);
        ensureFree(fs, target);
        boolean isRenamed = !fs.getUri().getScheme().equals("s3a");
        Path written = isRenamed
            ? new Path(target.getParent(), "." + target.getName() + ".put-" + UUID.randomUUID()) : target;
        if (!isRenamed) {
            fs.delete(Version.manifestPath(target), false);
        }
        Manifest.Builder found;
        try (BlockSink sink = new BlockSink(fs, written)) {
            found = Scan.run(in, sizes, records, name, sink);
        } catch (IOException | RuntimeException e) {
            if (isRenamed) {
                fs.delete(written, false);
            }
            throw e;
        }
        if (isRenamed) {
            replace(fs, written, target);
        }
        long modified = fs.getFileStatus(target).getModificationTime();
        Manifest manifest = found.build(Layout.BLOCKS, sizes, records, modified);
        write(fs, target, manifest);
        return new Result(new Version(target, manifest, false), manifest.entries().size(), manifest.fileLength());
    }

    private void replace(FileSystem fs, Path written, Path target) throws IOException {
        fs.delete(Version.manifestPath(target), false);
        if (overwrites) {
            fs.delete(target, false);
        }
        if (!fs.rename(written, target)) {
            fs.delete(written, false);
            throw new Refused("cannot rename what was written to " + target + ": another program may have"
                + " made a file there meanwhile; run put again");
        }
    }

    /**
     * Writes the splits of a local file that its folder does not share yet, and the manifest.
     *
     * <p>Reads {@code source} twice: to find its splits, and to write those that are new.
     */
    public Result shared(Path source, Path target) throws IOException {
        FileSystem fs = NewFile.raw(target.getFileSystem(conf));
        ensureFree(fs, target);
        Version local = Version.scan(conf, source, sizes, records);
        SharedSplits splits = new SharedSplits(conf, target.getParent());
        long writtenSplits = 0;
        long writtenBytes = 0;
        Set<Fingerprint> seen = new HashSet<>();
        try (Leases.Lease lease = splits.leases().take()) {
            for (SplitRef split : local.splits()) {
                if (!seen.add(split.fingerprint()) || splits.has(split.fingerprint(), split.length())) {
                    continue;
                }
                write(fs, target.getParent(), split);
                writtenSplits++;
                writtenBytes += split.length();
            }
            Manifest found = local.manifest();
            Manifest manifest = new Manifest(Layout.SHARED, sizes, records, found.fileLength(), 0, found.entries());
            if (overwrites) {
                fs.delete(target, false);
            }
            write(fs, target, manifest);
            return new Result(new Version(target, manifest, false), writtenSplits, writtenBytes);
        }
    }

    private void write(FileSystem fs, Path folder, SplitRef split) throws IOException {
        Path path = SharedSplits.path(folder, split.fingerprint());
        Path temporary = new Path(SharedSplits.root(folder), "tmp");
        try (NewFile file = NewFile.create(fs, path, temporary); InputStream in = split.open(conf)) {
            IOUtils.copyBytes(in, file.out(), 1 << 20, false);
            if (file.commit() || fs.getFileStatus(path).getLen() == split.length()) {
                return;
            }
        }
        // what is there has another length, and so is damaged
        fs.delete(path, false);
        write(fs, folder, split);
    }

    private void ensureFree(FileSystem fs, Path target) throws IOException {
        if (target.getName().startsWith(".") || target.getName().startsWith("_")) {
            throw new Refused(target + ": Hadoop hides names that begin with . or _; choose another name");
        }
        try {
            if (fs.getFileStatus(target).isDirectory()) {
                throw new Refused(target + " is a folder, expected the name of a file");
            }
        } catch (FileNotFoundException e) {
            if (!fs.exists(Version.manifestPath(target))) {
                return;
            }
        }
        if (!overwrites) {
            throw new Refused(target + " exists; add --overwrite to replace it");
        }
    }

    private static void write(FileSystem fs, Path target, Manifest manifest) throws IOException {
        Path path = Version.manifestPath(target);
        try (OutputStream out = new CheckedOutput(fs.create(path, true), path)) {
            out.write(manifest.encode());
        }
    }

    /** Writes a file, and ends an HDFS block where a split ends. */
    private final class BlockSink implements Scan.Sink, AutoCloseable {
        private final FSDataOutputStream file;
        private final OutputStream out;
        private boolean isAtEnd;

        BlockSink(FileSystem fs, Path path) throws IOException {
            // room for a split in one block; longer ones take several
            long unit = BLOCK_UNIT;
            long blockSize = Math.max(fs.getDefaultBlockSize(path), (sizes.max() + unit) / unit * unit);
            file = fs.create(path, false, 1 << 16, fs.getDefaultReplication(path), blockSize);
            out = new CheckedOutput(file, path);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            if (length > 0 && isAtEnd) {
                isAtEnd = false;
                if (file instanceof HdfsDataOutputStream hdfs) {
                    hdfs.hsync(EnumSet.of(SyncFlag.END_BLOCK));
                }
            }
            out.write(bytes, from, length);
        }

        @Override
        public void end() {
            isAtEnd = true;
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }
}
