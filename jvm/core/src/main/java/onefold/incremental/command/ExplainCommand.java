package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import onefold.incremental.Refused;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Says for each split of a version whether the last run's job has its result, and if not, why. */
final class ExplainCommand implements Command {
    @Override
    public String name() {
        return "explain";
    }

    @Override
    public String usage() {
        return "--memo DIR JOB NEW";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        Arguments arguments = new Arguments(words, Set.of("--memo"), Set.of());
        List<String> operands = arguments.operands("JOB", "NEW");
        Memo memo = Memo.at(conf, new Path(arguments.required("--memo")));
        Map<String, JobKey> keys = keys(memo, operands.get(0));
        List<JobKey> newestFirst = new java.util.ArrayList<>(keys.values());
        java.util.Collections.reverse(newestFirst);
        JobKey current = newestFirst.get(0);
        Memo.Found found = memo.find(current);
        Map<Fingerprint, JobKey> elsewhere = new HashMap<>();
        for (JobKey key : newestFirst.subList(1, newestFirst.size())) {
            memo.entries(key).keySet().forEach(split -> elsewhere.putIfAbsent(split, key));
        }
        out.println("offset\tlength\tresult\treason");
        for (SplitRef split : Versions.splits(conf, operands.get(1))) {
            boolean isHit = found.entries().containsKey(split.fingerprint());
            String reason = isHit ? "computed before" : reason(split.fingerprint(), found, elsewhere, current);
            out.println(split.position() + "\t" + split.length() + "\t" + (isHit ? "hit" : "miss") + "\t" + reason);
        }
        return 0;
    }

    /** Why a split misses. */
    private static String reason(Fingerprint split, Memo.Found found, Map<Fingerprint, JobKey> elsewhere, JobKey current) {
        Integer version = found.others().get(split);
        if (version != null) {
            return "another release of onefold computed it, in format " + version;
        }
        JobKey other = elsewhere.get(split);
        return other == null ? "new content, or its result was not kept" : "the job changed: " + difference(other, current);
    }

    /** The keys that runs of the job had, the latest last. */
    private static Map<String, JobKey> keys(Memo memo, String job) throws IOException {
        Map<String, JobKey> keys = new LinkedHashMap<>();
        Set<String> names = new TreeSet<>();
        for (Run run : memo.history()) {
            names.add(run.job());
            if (run.job().equals(job)) {
                keys.remove(run.key().id());
                keys.put(run.key().id(), run.key());
            }
        }
        if (keys.isEmpty()) {
            throw new Refused("the memo " + memo.folder() + " has no run of a job called '" + job + "'; it has "
                + (names.isEmpty() ? "none at all" : String.join(", ", names)));
        }
        return keys;
    }

    private static String difference(JobKey old, JobKey current) {
        Set<String> names = new TreeSet<>(old.parts().keySet());
        names.addAll(current.parts().keySet());
        names.removeIf(name -> java.util.Objects.equals(old.parts().get(name), current.parts().get(name)));
        return String.join(", ", names);
    }
}
