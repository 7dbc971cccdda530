package onefold.incremental.memo;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import onefold.incremental.files.CheckedOutput;
import onefold.incremental.files.Leases;
import onefold.incremental.files.Listing;
import onefold.incremental.files.NewFile;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.files.Reclaimer;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Results of splits, kept in a folder of any Hadoop file system.
 *
 * <p>An entry has the key of the job that computed it and the fingerprint of the split. It appears
 * whole or not at all, and is checked when it is read. A memo is a cache: losing an entry costs the
 * time to compute it. docs/incremental-format.md has the bytes.
 */
public final class Memo {
    private final Path folder;
    private final FileSystem fs;
    private final Leases leases;

    private Memo(Path folder, FileSystem fs) {
        this.folder = folder;
        this.fs = fs;
        leases = new Leases(fs, folder);
    }

    /** The memo in {@code folder}, which {@link #ensureWritable} makes if there is none. */
    public static Memo at(Configuration conf, Path folder) throws IOException {
        FileSystem fs = NewFile.raw(folder.getFileSystem(conf));
        return new Memo(fs.makeQualified(folder), fs);
    }

    public Path folder() {
        return folder;
    }

    /** Fails unless entries can be written: makes a file and deletes it. */
    public void ensureWritable() throws IOException {
        Path probe = new Path(temporary(), "probe-" + java.util.UUID.randomUUID());
        try (OutputStream out = new CheckedOutput(fs.create(probe, false), probe)) {
            out.write(0);
        }
        fs.delete(probe, false);
    }

    /** Takes a lease on all entries; {@link Leases.Lease#narrow} it to {@link #name names}. */
    public Leases.Lease lease() throws IOException {
        return leases.take();
    }

    /** What a lease calls an entry. */
    public static String name(JobKey job, Fingerprint split) {
        return job.id() + "+" + split;
    }

    /** The splits that {@code job} has entries for, and the entries' lengths in bytes. Checks nothing. */
    public Map<Fingerprint, Long> entries(JobKey job) throws IOException {
        return find(job).entries();
    }

    /**
     * What a job has in the memo.
     *
     * @param entries lengths in bytes of the entries, by split
     * @param others versions of the format of entries that another release wrote, which this one cannot read
     */
    public record Found(Map<Fingerprint, Long> entries, Map<Fingerprint, Integer> others) {
        /** How many of these splits another release has a result of, and this one has not. */
        public long inOthersOnly(Collection<Fingerprint> splits) {
            return splits.stream().filter(split -> !entries.containsKey(split) && others.containsKey(split)).count();
        }
    }

    /** As {@link #entries}, and what other releases wrote. */
    public Found find(JobKey job) throws IOException {
        Found found = new Found(new HashMap<>(), new HashMap<>());
        for (FileStatus status : Listing.of(fs, new Path(home(), job.id()))) {
            EntryName.parse(status.getPath().getName()).ifPresent(name -> {
                if (name.isOfThisVersion()) {
                    found.entries.put(name.split(), status.getLen());
                } else {
                    found.others.put(name.split(), name.version());
                }
            });
        }
        return found;
    }

    /**
     * The payload of an entry, checked from the first byte to the last; nothing if there is no entry.
     *
     * @throws DamagedEntry if the entry is not what was published
     */
    public Optional<InputStream> read(JobKey job, Fingerprint split, int kind) throws IOException {
        Path path = path(job, split);
        // where gc has it for a moment, and where gc puts it back
        for (Path place : List.of(path, Reclaimer.inTrash(folder, path), path)) {
            try {
                return Optional.of(Entry.open(fs, place, fs.getFileStatus(place).getLen(), job, split, kind));
            } catch (FileNotFoundException e) {
                continue;
            }
        }
        return Optional.empty();
    }

    /** A new entry, which appears when it is committed. */
    public NewEntry create(JobKey job, Fingerprint split, int kind) throws IOException {
        return new NewEntry(NewFile.create(fs, path(job, split), temporary()), job, split, kind);
    }

    /** Deletes an entry that is damaged, so that it can be published anew. */
    public void delete(JobKey job, Fingerprint split) throws IOException {
        fs.delete(path(job, split), false);
    }

    /** Notes down a job's parts for {@link #history}, and what a run of it hit. */
    public void note(Run run) throws IOException {
        run.write(fs, new Path(folder, "runs"), temporary());
    }

    /** The runs so far, the earliest first; those that cannot be read are left out. */
    public List<Run> history() throws IOException {
        List<Run> runs = new ArrayList<>();
        for (FileStatus status : Listing.of(fs, new Path(folder, "runs"))) {
            try (FSDataInputStream in = fs.open(status.getPath())) {
                Run.read(in.readNBytes(Run.MAX_LENGTH)).ifPresent(runs::add);
            }
        }
        runs.sort(java.util.Comparator.comparingLong(Run::time));
        return runs;
    }

    /** How many entries there are, and their bytes; {@code others} are those of other versions of the format. */
    public record Size(long entries, long bytes, long others, long otherBytes) {
    }

    /** What the memo holds. */
    public Size size() throws IOException {
        Map<Boolean, LongSummaryStatistics> sizes = all().stream().collect(Collectors.partitioningBy(
            file -> isOfOtherVersion(file.getPath()), Collectors.summarizingLong(FileStatus::getLen)));
        LongSummaryStatistics own = sizes.get(false);
        LongSummaryStatistics others = sizes.get(true);
        return new Size(own.getCount(), own.getSum(), others.getCount(), others.getSum());
    }

    private static boolean isOfOtherVersion(Path path) {
        return EntryName.parse(path.getName()).filter(name -> !name.isOfThisVersion()).isPresent();
    }

    /** Tells which entries are needed. */
    public interface Needs {
        /** Those of {@code present} that are needed. */
        Set<Fingerprint> among(Set<Fingerprint> present) throws IOException;
    }

    /**
     * Deletes the entries that are not needed, but none that a running job relies on, and none of another
     * version of the format: what that one calls the nodes of a tree is not known here.
     */
    public Reclaimed reclaim(Needs needs, boolean isDryRun) throws IOException {
        Reclaimer reclaimer = new Reclaimer(fs, folder, "entries", leases);
        List<FileStatus> entries = all();
        Set<Fingerprint> present = new HashSet<>();
        for (Path path : reclaimer.candidates(entries)) {
            EntryName.parse(path.getName()).filter(EntryName::isOfThisVersion)
                .ifPresent(name -> present.add(name.split()));
        }
        Set<Fingerprint> needed = needs.among(present);
        Predicate<Path> unneeded = path -> {
            Optional<EntryName> name = EntryName.parse(path.getName());
            return name.isEmpty() || (name.get().isOfThisVersion() && !needed.contains(name.get().split()));
        };
        return reclaimer.run(entries, () -> unneeded, isDryRun);
    }

    private List<FileStatus> all() throws IOException {
        List<FileStatus> entries = new ArrayList<>();
        for (FileStatus job : Listing.of(fs, home())) {
            entries.addAll(Listing.of(fs, job.getPath()));
        }
        return entries;
    }

    private Path home() {
        return new Path(folder, "entries");
    }

    private Path temporary() {
        return new Path(folder, "tmp");
    }

    private Path path(JobKey job, Fingerprint split) {
        return new Path(new Path(home(), job.id()), EntryName.of(split).toString());
    }

    /** An entry that is being written. */
    public static final class NewEntry implements AutoCloseable {
        private final NewFile file;
        private final Entry.Writer writer;

        private NewEntry(NewFile file, JobKey job, Fingerprint split, int kind) throws IOException {
            this.file = file;
            writer = new Entry.Writer(file.out(), job, split, kind);
        }

        /** Where the payload goes; the caller does not close it. */
        public OutputStream out() {
            return writer;
        }

        /** Publishes the entry; false if another program did so first, which is as good. */
        public boolean commit() throws IOException {
            writer.finish();
            return file.commit();
        }

        /** Discards the entry unless it was committed. */
        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
