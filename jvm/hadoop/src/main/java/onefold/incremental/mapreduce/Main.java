package onefold.incremental.mapreduce;

import java.util.ArrayList;
import java.util.List;
import onefold.incremental.command.Commands;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/** The command line of the jar: Hadoop's generic options, then a command. */
public final class Main extends Configured implements Tool {
    private final Commands commands;
    private final List<String> words;

    private Main(Commands commands, List<String> words) {
        this.commands = commands;
        this.words = words;
    }

    @Override
    public int run(String[] unknown) throws InterruptedException {
        List<String> all = new ArrayList<>(List.of(unknown));
        all.addAll(words);
        return commands.run(getConf(), all, System.out, System.err);
    }

    public static void main(String[] words) throws Exception {
        Commands commands = new Commands(new RunCommand());
        List<String> all = List.of(words);
        // Hadoop's parser of generic options would drop the -- that follows a command
        int command = commands.find(all);
        String[] generic = all.subList(0, command).toArray(String[]::new);
        System.exit(ToolRunner.run(new Configuration(), new Main(commands, all.subList(command, all.size())), generic));
    }
}
