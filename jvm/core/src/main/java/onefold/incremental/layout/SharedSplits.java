package onefold.incremental.layout;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import onefold.incremental.files.Leases;
import onefold.incremental.files.Listing;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.files.Reclaimer;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The splits that the files of one folder share: each distinct split once, named by its fingerprint. */
public final class SharedSplits {
    private final Path folder;
    private final FileSystem fs;
    private final Configuration conf;

    /** The shared splits of the files in {@code folder}. */
    public SharedSplits(Configuration conf, Path folder) throws IOException {
        this.conf = conf;
        this.folder = folder;
        fs = folder.getFileSystem(conf);
    }

    static Path root(Path folder) {
        return new Path(folder, Version.SHARED_FOLDER);
    }

    static Path path(Path folder, Fingerprint fingerprint) {
        String name = fingerprint.toString();
        return new Path(new Path(new Path(root(folder), "splits"), name.substring(0, 2)), name);
    }

    /** What keeps {@link #reclaim} from taking splits that a {@code put} relies on. */
    Leases leases() {
        return new Leases(fs, root(folder));
    }

    /** Whether the split is there with all its bytes. */
    boolean has(Fingerprint fingerprint, long length) throws IOException {
        try {
            return fs.getFileStatus(path(folder, fingerprint)).getLen() == length;
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /** Deletes the splits that no manifest of the folder lists and no running {@code put} relies on. */
    public Reclaimed reclaim(boolean isDryRun) throws IOException {
        Reclaimer reclaimer = new Reclaimer(fs, root(folder), "splits", leases());
        List<FileStatus> splits = new ArrayList<>();
        for (FileStatus prefix : Listing.of(fs, new Path(root(folder), "splits"))) {
            splits.addAll(Listing.of(fs, prefix.getPath()));
        }
        return reclaimer.run(splits, this::unlisted, isDryRun);
    }

    private java.util.function.Predicate<Path> unlisted() throws IOException {
        Set<String> listed = new HashSet<>();
        for (FileStatus status : Listing.of(fs, folder)) {
            Optional<Path> file = Version.ofManifest(status.getPath());
            Optional<Version> version = file.isPresent() && status.isFile()
                ? Version.find(conf, file.get()) : Optional.empty();
            version.filter(found -> found.manifest().layout() == Layout.SHARED).ifPresent(found ->
                found.manifest().entries().forEach(entry -> listed.add(entry.fingerprint().toString())));
        }
        return path -> !listed.contains(path.getName());
    }
}
