package onefold.incremental.input;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import onefold.incremental.Refused;
import onefold.incremental.layout.Layout;
import onefold.incremental.layout.Version;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.io.compress.CompressionCodecFactory;

/** The files that the input paths of a job name: files, folders, patterns, and files with shared splits. */
public final class InputFiles {
    /** The mean length of splits of files without a manifest, as {@code --mean} takes it. */
    public static final String MEAN = "onefold.split.mean";

    /** The records of files without a manifest, as {@code --records} takes them. */
    public static final String RECORDS = "onefold.split.records";

    private static final PathFilter VISIBLE =
        path -> !path.getName().startsWith("_") && !path.getName().startsWith(".");

    private final Configuration conf;
    private final boolean isRecursive;
    private final CompressionCodecFactory codecs;

    /** Takes folders in folders if {@code isRecursive}, and refuses them otherwise. */
    public InputFiles(Configuration conf, boolean isRecursive) {
        this.conf = conf;
        this.isRecursive = isRecursive;
        codecs = new CompressionCodecFactory(conf);
    }

    /** The files, in the order of the paths and of their names; refuses a path that names none. */
    public List<Path> list(Path... paths) throws IOException {
        List<Path> files = new ArrayList<>();
        for (Path path : paths) {
            FileSystem fs = path.getFileSystem(conf);
            FileStatus[] found = fs.globStatus(path, VISIBLE);
            if (found != null && found.length > 0) {
                for (FileStatus status : found) {
                    if (status.isFile()) {
                        files.add(status.getPath());
                    } else {
                        addFolder(fs, status.getPath(), files);
                    }
                }
            } else if (fs.exists(Version.manifestPath(path))) {
                files.add(fs.makeQualified(path));
            } else {
                throw new FileNotFoundException("input " + path + " does not exist and has no shared splits");
            }
        }
        return files;
    }

    private void addFolder(FileSystem fs, Path folder, List<Path> files) throws IOException {
        List<Path> found = new ArrayList<>();
        Set<Path> visible = new HashSet<>();
        List<Path> manifests = new ArrayList<>();
        FileStatus[] statuses = fs.listStatus(folder);
        for (FileStatus status : statuses) {
            Path path = status.getPath();
            Optional<Path> described = Version.ofManifest(path);
            if (status.isFile() && described.isPresent()) {
                manifests.add(described.get());
            } else if (VISIBLE.accept(path) && status.isFile()) {
                found.add(path);
                visible.add(path);
            } else if (VISIBLE.accept(path)) {
                if (!isRecursive) {
                    throw new Refused("input " + path + " is a folder in a folder, expected a file");
                }
                addFolder(fs, path, found);
            }
        }
        for (Path path : manifests) {
            // a manifest whose file was deleted says nothing, unless splits are shared
            if (!visible.contains(path) && isShared(path)) {
                found.add(path);
            }
        }
        found.sort(null);
        files.addAll(found);
    }

    private boolean isShared(Path path) throws IOException {
        try {
            return Version.find(conf, path).filter(found -> found.manifest().layout() == Layout.SHARED).isPresent();
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /**
     * The splits of {@code file}, by its manifest. Without one it reads the file once, and says so on standard
     * error. It refuses a file that Hadoop would decompress.
     */
    public Version version(Path file) throws IOException {
        if (codecs.getCodec(file) != null) {
            throw new Refused(file + " is compressed, as its name says, and compressed bytes differ from the first"
                + " change on; decompress it");
        }
        Optional<Version> known = Version.find(conf, file);
        if (known.isPresent()) {
            return known.get();
        }
        System.err.println("onefold: " + file + " has no manifest of splits; reading it once to find them"
            + " (put writes files with one)");
        SplitSizes sizes = SplitSizes.parse(conf.get(MEAN, Long.toString(SplitSizes.DEFAULT_MEAN)));
        return Version.scan(conf, file, sizes, Records.parse(conf.get(RECORDS, "lines")));
    }
}
