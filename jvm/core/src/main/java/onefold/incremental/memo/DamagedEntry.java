package onefold.incremental.memo;

import java.io.IOException;
import org.apache.hadoop.fs.Path;

/** An entry whose bytes are not those that were published. */
public final class DamagedEntry extends IOException {
    private static final long serialVersionUID = 1;

    DamagedEntry(Path path, String what) {
        super("memo entry " + path + " is damaged: " + what);
    }
}
