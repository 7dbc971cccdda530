package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.Set;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.conf.Configuration;

/** Lists the splits of a file. */
final class LsCommand implements Command {
    @Override
    public String name() {
        return "ls";
    }

    @Override
    public String usage() {
        return "FILE";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        String name = new Arguments(words, Set.of(), Set.of()).operands("FILE").get(0);
        out.println("offset\tlength\tfingerprint\tfile");
        for (SplitRef split : Versions.splits(conf, name)) {
            out.println(split.position() + "\t" + split.length() + "\t" + split.fingerprint() + "\t" + split.file());
        }
        return 0;
    }
}
