package onefold.spark;

import java.io.IOException;
import java.util.List;
import java.util.TreeMap;
import onefold.incremental.Refused;
import onefold.incremental.input.InputFiles;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * An incremental operation as its caller describes it.
 *
 * @param name what to call it in messages and in the memo's history
 * @param paths files and folders to read
 * @param reason why there is no memo, if there is none
 * @param records of files without a manifest
 * @param mean length of splits in files without a manifest
 * @param verifiedShare the share of hits that are computed and compared, 0 to 1
 */
record Job(String name, List<String> paths, Spec spec, String reason, String records, String mean,
        double verifiedShare) {
    Job {
        paths = List.copyOf(paths);
        if (!(verifiedShare >= 0 && verifiedShare <= 1)) {
            throw new IllegalArgumentException("verify " + verifiedShare * 100 + " %: expected 0 to 100");
        }
    }

    /** {@code memo} may be null, and {@code reason} then says why. */
    static Job of(String name, List<String> paths, String memo, TreeMap<String, String> parts, boolean isTrusting,
            String reason, String records, String mean, double verifiedShare) throws Refused {
        // what cannot be read is told now, not when an action is called
        Records.parse(records);
        SplitSizes.parse(mean);
        return new Job(name, paths, Spec.of(memo, parts, isTrusting), reason, records, mean, verifiedShare);
    }

    Job withId() {
        Spec fresh = Spec.of(spec.memo(), spec.parts(), spec.isTrusting());
        return new Job(name, paths, fresh, reason, records, mean, verifiedShare);
    }

    Configuration conf(JavaSparkContext context) throws IOException {
        Configuration conf = new Configuration(context.hadoopConfiguration());
        conf.set(InputFiles.RECORDS, records);
        conf.set(InputFiles.MEAN, mean);
        spec.set(conf);
        return conf;
    }
}
