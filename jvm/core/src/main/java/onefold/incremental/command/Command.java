package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/** One of the commands. */
public interface Command {
    /** The word that calls it. */
    String name();

    /** What follows the word, for the usage. */
    String usage();

    /** Runs it; results go to {@code out}. */
    int run(Configuration conf, List<String> words, PrintStream out)
        throws IOException, InterruptedException, Arguments.Usage;
}
