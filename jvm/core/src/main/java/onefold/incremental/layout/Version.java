package onefold.incremental.layout;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import onefold.incremental.Refused;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A file of a data set and its splits.
 *
 * @param path what the user calls the file; where splits are shared, no file has this name
 * @param isScanned whether the file has no manifest, and was read to find its splits
 */
public record Version(Path path, Manifest manifest, boolean isScanned) {
    private static final String SUFFIX = ".onefold";

    /** The folder of the shared splits, in the folder of the files that have them. */
    static final String SHARED_FOLDER = ".onefold";

    /** Where the manifest of {@code file} is: a hidden file beside it. */
    public static Path manifestPath(Path file) {
        return new Path(file.getParent(), "." + file.getName() + SUFFIX);
    }

    /** The file whose manifest {@code path} would be, if it has the name of a manifest. */
    public static Optional<Path> ofManifest(Path path) {
        String name = path.getName();
        if (!name.startsWith(".") || !name.endsWith(SUFFIX) || name.length() <= 1 + SUFFIX.length()) {
            return Optional.empty();
        }
        return Optional.of(new Path(path.getParent(), name.substring(1, name.length() - SUFFIX.length())));
    }

    /**
     * The file with the splits that its manifest lists, or nothing if it has no manifest.
     *
     * <p>Refuses a manifest that is damaged, of another version, or does not fit the file: then the
     * file was changed after the manifest was written.
     */
    public static Optional<Version> find(Configuration conf, Path file) throws IOException {
        Path path = manifestPath(file);
        FileSystem fs = file.getFileSystem(conf);
        byte[] encoded;
        try (FSDataInputStream in = fs.open(path)) {
            encoded = in.readNBytes(Manifest.MAX_LENGTH + 1);
        } catch (FileNotFoundException e) {
            return Optional.empty();
        }
        if (encoded.length > Manifest.MAX_LENGTH) {
            throw new Refused(path + " has more than " + Manifest.MAX_LENGTH + " bytes and is no manifest; delete it");
        }
        Manifest manifest = Manifest.decode(encoded, path.toString());
        if (manifest.layout() == Layout.BLOCKS) {
            ensureFits(manifest, fs.getFileStatus(file), path);
        }
        return Optional.of(new Version(file, manifest, false));
    }

    private static void ensureFits(Manifest manifest, FileStatus status, Path path) throws Refused {
        if (status.getLen() != manifest.fileLength()) {
            throw unfit(path, status, "it has " + status.getLen() + " bytes, expected " + manifest.fileLength());
        }
        if (status.getModificationTime() != manifest.modified()) {
            throw unfit(path, status, "it was modified at " + status.getModificationTime()
                + " ms, expected " + manifest.modified());
        }
    }

    private static Refused unfit(Path manifest, FileStatus status, String what) {
        return new Refused(manifest + " does not fit " + status.getPath() + ": " + what
            + "; run put again, or delete the manifest to use the file without it");
    }

    /** Reads {@code file} once to find its splits. */
    public static Version scan(Configuration conf, Path file, SplitSizes sizes, Records records)
            throws IOException {
        FileSystem fs = file.getFileSystem(conf);
        FileStatus before = fs.getFileStatus(file);
        if (!before.isFile()) {
            throw new Refused(file + " is a folder, expected a file");
        }
        Manifest manifest;
        try (InputStream in = fs.open(file)) {
            manifest = Scan.run(in, sizes, records, file.toString(), Scan.NOTHING)
                .build(Layout.BLOCKS, sizes, records, before.getModificationTime());
        }
        ensureFits(manifest, fs.getFileStatus(file), file);
        return new Version(file, manifest, true);
    }

    /** The splits, in order. */
    public List<SplitRef> splits() {
        List<SplitRef> splits = new ArrayList<>(manifest.entries().size());
        long position = 0;
        for (Manifest.Entry entry : manifest.entries()) {
            boolean isShared = manifest.layout() == Layout.SHARED;
            splits.add(new SplitRef(
                isShared ? SharedSplits.path(path.getParent(), entry.fingerprint()) : path,
                isShared ? 0 : position, entry.length(), entry.fingerprint(), position));
            position += entry.length();
        }
        return splits;
    }
}
