package onefold.incremental.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Deletes files that nothing needs, while programs may begin to rely on them.
 *
 * <p>Each file is first moved to the folder {@code trash}, under the last two parts of its path. From
 * then on no program finds it. A program that found it before had its lease before that. Therefore
 * the leases are read after the move, and a file that one of them covers is moved back, as is a file
 * that is needed by now. The rest is deleted. What a crash left in the trash is decided by the next
 * collection.
 */
public final class Reclaimer {
    private static final char SEPARATOR = '+';

    private final FileSystem fs;
    private final Path root;
    private final Path home;
    private final Leases leases;

    /** Reclaims files in the folders of {@code home}, which is in {@code root}. */
    public Reclaimer(FileSystem fs, Path root, String home, Leases leases) {
        this.fs = fs;
        this.root = root;
        this.home = new Path(root, home);
        this.leases = leases;
    }

    /** Tells which files are not needed at the time of the call. */
    public interface Unneeded {
        Predicate<Path> now() throws IOException;
    }

    /** Where {@code path} is while it is in the trash of {@code root}. */
    public static Path inTrash(Path root, Path path) {
        return new Path(new Path(root, "trash"), path.getParent().getName() + SEPARATOR + path.getName());
    }

    /** Where {@code files} are, and where those came from that an earlier collection left in the trash. */
    public List<Path> candidates(List<FileStatus> files) throws IOException {
        List<Path> paths = new ArrayList<>();
        files.forEach(file -> paths.add(file.getPath()));
        leftovers().forEach(file -> paths.add(file.path));
        return paths;
    }

    /** Reclaims those of {@code files}, and of the trash, that are not needed. */
    public Reclaimed run(List<FileStatus> files, Unneeded unneeded, boolean isDryRun) throws IOException {
        Predicate<Path> before = unneeded.now();
        List<FileStatus> doomed = files.stream().filter(file -> before.test(file.getPath())).toList();
        if (isDryRun) {
            Leases.Living living = leases.living();
            List<FileStatus> free = doomed.stream().filter(file -> !living.covers(name(file.getPath()))).toList();
            return new Reclaimed(free.size(), free.stream().mapToLong(FileStatus::getLen).sum(),
                doomed.size() - free.size());
        }
        fs.mkdirs(new Path(root, "trash"));
        List<Condemned> condemned = leftovers();
        for (FileStatus file : doomed) {
            Path trash = inTrash(root, file.getPath());
            if (fs.rename(file.getPath(), trash)) {
                condemned.add(new Condemned(file.getPath(), trash, file.getLen()));
            }
        }
        return decide(condemned, unneeded);
    }

    private record Condemned(Path path, Path trash, long length) {
    }

    /** What an earlier collection left; where each file came from follows from its name. */
    private List<Condemned> leftovers() throws IOException {
        List<Condemned> condemned = new ArrayList<>();
        for (FileStatus file : Listing.of(fs, new Path(root, "trash"))) {
            String name = file.getPath().getName();
            int separator = name.indexOf(SEPARATOR);
            if (separator > 0) {
                Path parent = new Path(home, name.substring(0, separator));
                Path path = new Path(parent, name.substring(separator + 1));
                condemned.add(new Condemned(path, file.getPath(), file.getLen()));
            }
        }
        return condemned;
    }

    private Reclaimed decide(List<Condemned> condemned, Unneeded unneeded) throws IOException {
        Leases.Living living = leases.living();
        Predicate<Path> after = unneeded.now();
        long files = 0;
        long bytes = 0;
        long leased = 0;
        for (Condemned file : condemned) {
            boolean isLeased = living.covers(name(file.path));
            if (isLeased || !after.test(file.path)) {
                leased += isLeased ? 1 : 0;
                fs.mkdirs(file.path.getParent());
                if (!fs.rename(file.trash, file.path)) {
                    // written anew meanwhile
                    fs.delete(file.trash, false);
                }
            } else if (fs.delete(file.trash, false)) {
                files++;
                bytes += file.length;
            }
        }
        return new Reclaimed(files, bytes, leased);
    }

    /** What a lease calls the file. */
    public static String name(Path path) {
        return path.getParent().getName() + SEPARATOR + path.getName();
    }
}
