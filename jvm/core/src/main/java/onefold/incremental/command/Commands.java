package onefold.incremental.command;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.Refused;
import org.apache.hadoop.conf.Configuration;

/** The commands, and what becomes of their errors. */
public final class Commands {
    private static final int FAILED = 1;
    private static final int MISUSED = 2;

    private final List<Command> commands = new ArrayList<>(List.of(new PutCommand(), new DiffCommand(),
        new ExplainCommand(), new LsCommand(), new GcCommand(), new StatsCommand()));

    /** The commands of this module and these. */
    public Commands(Command... others) {
        commands.addAll(List.of(others));
    }

    /** Where in {@code words} the name of a command is, or their number if it is nowhere. */
    public int find(List<String> words) {
        int at = 0;
        while (at < words.size() && !isCommand(words.get(at))) {
            at++;
        }
        return at;
    }

    private boolean isCommand(String word) {
        return commands.stream().anyMatch(command -> command.name().equals(word));
    }

    /** Runs the command that {@code words} call, and returns what the process ends with. */
    public int run(Configuration conf, List<String> words, PrintStream out, PrintStream err)
            throws InterruptedException {
        for (Command command : commands) {
            if (!words.isEmpty() && words.get(0).equals(command.name())) {
                return run(command, conf, words.subList(1, words.size()), out, err);
            }
        }
        err.println(words.isEmpty() ? "a command is missing" : "unknown command " + words.get(0));
        commands.forEach(command -> err.println("  " + command.name() + " " + command.usage()));
        return MISUSED;
    }

    private static int run(Command command, Configuration conf, List<String> words, PrintStream out, PrintStream err)
            throws InterruptedException {
        try {
            return command.run(conf, words, out);
        } catch (Arguments.Usage e) {
            err.println("onefold " + command.name() + ": " + e.getMessage());
            err.println("usage: " + command.name() + " " + command.usage());
            return MISUSED;
        } catch (Refused e) {
            err.println("onefold " + command.name() + ": " + e.getMessage());
            return FAILED;
        } catch (IOException e) {
            // messages of Hadoop's own often are but a path
            err.println("onefold " + command.name() + ": " + e.getClass().getSimpleName() + ": " + e.getMessage());
            return FAILED;
        }
    }
}
