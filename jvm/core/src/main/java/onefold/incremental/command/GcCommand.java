package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.layout.SharedSplits;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Deletes entries of a memo that no version needs, or shared splits that no manifest lists. */
final class GcCommand implements Command {
    @Override
    public String name() {
        return "gc";
    }

    @Override
    public String usage() {
        return "[--dry-run] --memo DIR NEEDED-FILE... | --shared FOLDER";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        Arguments arguments = new Arguments(words, Set.of("--memo", "--shared"), Set.of("--dry-run"));
        boolean isDryRun = arguments.has("--dry-run");
        String shared = arguments.value("--shared", null);
        Reclaimed reclaimed;
        if (shared != null) {
            arguments.operands();
            reclaimed = new SharedSplits(conf, new Path(shared)).reclaim(isDryRun);
        } else {
            Memo memo = Memo.at(conf, new Path(arguments.required("--memo")));
            if (arguments.operands().isEmpty()) {
                throw new Arguments.Usage("name the files whose entries are needed, or delete the folder of the memo");
            }
            Set<Fingerprint> needed = new HashSet<>();
            for (String name : arguments.operands()) {
                for (SplitRef split : Versions.splits(conf, name)) {
                    needed.add(split.fingerprint());
                }
            }
            reclaimed = memo.reclaim(needed, isDryRun);
        }
        out.println((isDryRun ? "would delete " : "deleted ") + reclaimed.files() + " files, "
            + Numbers.bytes(reclaimed.bytes()) + "; kept for running programs: " + reclaimed.leased());
        return 0;
    }
}
