package onefold.incremental.input;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Which hosts have the bytes of splits. Asks once a file. */
public final class Hosts {
    private final Configuration conf;
    private final Map<Path, BlockLocation[]> blocks = new HashMap<>();

    public Hosts(Configuration conf) {
        this.conf = conf;
    }

    /** The hosts of the blocks that hold the split. */
    public String[] of(SplitRef split) throws IOException {
        BlockLocation[] locations = blocks.get(split.file());
        if (locations == null) {
            FileSystem fs = split.file().getFileSystem(conf);
            locations = fs.getFileBlockLocations(split.file(), 0, Long.MAX_VALUE);
            blocks.put(split.file(), locations);
        }
        Set<String> hosts = new LinkedHashSet<>();
        for (BlockLocation block : locations) {
            boolean overlaps = block.getOffset() < split.offset() + split.length()
                && split.offset() < block.getOffset() + block.getLength();
            if (overlaps) {
                hosts.addAll(Set.of(block.getHosts()));
            }
        }
        return hosts.toArray(String[]::new);
    }
}
