package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Says what a memo holds and what it saved. */
final class StatsCommand implements Command {
    @Override
    public String name() {
        return "stats";
    }

    @Override
    public String usage() {
        return "--memo DIR";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        Arguments arguments = new Arguments(words, Set.of("--memo"), Set.of());
        arguments.operands(new String[0]);
        Memo memo = Memo.at(conf, new Path(arguments.required("--memo")));
        Memo.Size size = memo.size();
        out.println(memo.folder() + ": " + size.entries() + " entries, " + Numbers.bytes(size.bytes()));
        if (size.others() > 0) {
            out.println("written by other releases in another format: " + size.others() + " entries, "
                + Numbers.bytes(size.otherBytes()));
        }
        Map<String, Sum> jobs = new TreeMap<>();
        for (Run run : memo.history()) {
            jobs.computeIfAbsent(run.job(), name -> new Sum()).add(run);
        }
        out.println("job\truns\tsplits replayed\tsplits computed\tbytes replayed\tbytes computed");
        jobs.forEach((job, sum) -> out.println(job + "\t" + sum.runs + "\t" + sum.hits + "\t" + sum.misses
            + "\t" + Numbers.bytes(sum.hitBytes) + "\t" + Numbers.bytes(sum.missBytes)));
        return 0;
    }

    private static final class Sum {
        private long runs;
        private long hits;
        private long misses;
        private long hitBytes;
        private long missBytes;

        void add(Run run) {
            runs++;
            hits += run.hits();
            misses += run.misses();
            hitBytes += run.hitBytes();
            missBytes += run.missBytes();
        }
    }
}
