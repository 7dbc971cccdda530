package onefold.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.Refused;
import onefold.incremental.input.Hosts;
import onefold.incremental.input.InputFiles;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.layout.Version;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The splits that an operation reads, in order. */
record Inputs(List<SplitRef> splits, String records, Hosts hosts) {
    static Inputs read(Configuration conf, List<String> paths) throws IOException {
        InputFiles files = new InputFiles(conf, false);
        List<SplitRef> splits = new ArrayList<>();
        String records = null;
        Path first = null;
        for (Path file : files.list(paths.stream().map(Path::new).toArray(Path[]::new))) {
            Version version = files.version(file);
            String own = version.manifest().records().toString();
            if (records != null && !records.equals(own)) {
                throw new Refused(first + " has records " + records + " and " + file + " has " + own
                    + "; one job reads files with equal records");
            }
            records = own;
            first = file;
            splits.addAll(version.splits());
        }
        return new Inputs(splits, records == null ? "lines" : records, new Hosts(conf));
    }
}
