package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;

/** Says how much of a version another one lacks. */
final class DiffCommand implements Command {
    @Override
    public String name() {
        return "diff";
    }

    @Override
    public String usage() {
        return "OLD NEW";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        List<String> operands = new Arguments(words, Set.of(), Set.of()).operands("OLD", "NEW");
        Set<Fingerprint> old = new HashSet<>();
        for (SplitRef split : Versions.splits(conf, operands.get(0))) {
            old.add(split.fingerprint());
        }
        List<SplitRef> splits = Versions.splits(conf, operands.get(1));
        List<SplitRef> added = splits.stream().filter(split -> !old.contains(split.fingerprint())).toList();
        long bytes = Versions.bytes(splits);
        long addedBytes = Versions.bytes(added);
        out.println(added.size() + " of " + splits.size() + " splits are new ("
            + Numbers.share(added.size(), splits.size()) + "), " + Numbers.bytes(addedBytes) + " of "
            + Numbers.bytes(bytes) + " (" + Numbers.share(addedBytes, bytes) + ")");
        return 0;
    }
}
