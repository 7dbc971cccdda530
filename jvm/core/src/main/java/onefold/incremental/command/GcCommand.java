package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import onefold.incremental.files.Reclaimed;
import onefold.incremental.layout.SharedSplits;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.memo.Contraction;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
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
        long others = 0;
        if (shared != null) {
            arguments.operands();
            reclaimed = new SharedSplits(conf, new Path(shared)).reclaim(isDryRun);
        } else {
            Memo memo = Memo.at(conf, new Path(arguments.required("--memo")));
            if (arguments.operands().isEmpty()) {
                throw new Arguments.Usage("name the files whose entries are needed, or delete the folder of the memo");
            }
            List<String> files = arguments.operands();
            reclaimed = memo.reclaim(present -> needed(conf, memo, files, present), isDryRun);
            others = memo.size().others();
        }
        out.println((isDryRun ? "would delete " : "deleted ") + reclaimed.files() + " files, "
            + Numbers.bytes(reclaimed.bytes()) + "; kept for running programs: " + reclaimed.leased()
            + (others > 0 ? "; left to the releases of onefold that wrote them: " + others : ""));
        return 0;
    }

    /**
     * Those of {@code present} that are splits of the files, or nodes of trees over each operand and over
     * all of them. Takes memory for what is present, not for each part of each node.
     */
    private static Set<Fingerprint> needed(Configuration conf, Memo memo, List<String> names,
            Set<Fingerprint> present) throws IOException {
        int parts = 0;
        for (Run run : memo.history()) {
            parts = Math.max(parts, run.treeParts());
        }
        Set<Fingerprint> needed = new HashSet<>();
        Consumer<Fingerprint> need = name -> {
            if (present.contains(name)) {
                needed.add(name);
            }
        };
        List<Fingerprint> all = new ArrayList<>();
        for (String name : names) {
            List<Fingerprint> splits = Versions.splits(conf, name).stream().map(SplitRef::fingerprint).toList();
            splits.forEach(need);
            all.addAll(splits);
            if (names.size() > 1) {
                Contraction.forEachName(splits, parts, need);
            }
        }
        Contraction.forEachName(all, parts, need);
        return needed;
    }
}
