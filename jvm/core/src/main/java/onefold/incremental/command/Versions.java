package onefold.incremental.command;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.input.InputFiles;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The splits that a command's operand names. */
final class Versions {
    private Versions() {
    }

    /** The splits of a file, or of all files in a folder. */
    static List<SplitRef> splits(Configuration conf, String name) throws IOException {
        InputFiles files = new InputFiles(conf, true);
        List<SplitRef> splits = new ArrayList<>();
        for (Path file : files.list(new Path(name))) {
            splits.addAll(files.version(file).splits());
        }
        return splits;
    }

    static long bytes(List<SplitRef> splits) {
        return splits.stream().mapToLong(SplitRef::length).sum();
    }
}
