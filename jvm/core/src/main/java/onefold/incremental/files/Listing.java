package onefold.incremental.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** What is in a folder. */
public final class Listing {
    private Listing() {
    }

    /** The entries of {@code folder}; none if it does not exist. */
    public static List<FileStatus> of(FileSystem fs, Path folder) throws IOException {
        try {
            return Arrays.asList(fs.listStatus(folder));
        } catch (FileNotFoundException e) {
            return List.of();
        }
    }
}
