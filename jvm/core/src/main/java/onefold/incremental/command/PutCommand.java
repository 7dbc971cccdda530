package onefold.incremental.command;

import java.io.File;
import java.io.FileInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Set;
import onefold.incremental.layout.Put;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes a file whose splits are those of its content. */
final class PutCommand implements Command {
    @Override
    public String name() {
        return "put";
    }

    @Override
    public String usage() {
        return "[--mean 64MiB] [--records lines|delimiter:X|length:N] [--shared] [--overwrite] LOCAL|- TARGET";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out) throws IOException, Arguments.Usage {
        Arguments arguments =
            new Arguments(words, Set.of("--mean", "--records"), Set.of("--shared", "--overwrite"));
        List<String> operands = arguments.operands("LOCAL|-", "TARGET");
        SplitSizes sizes = SplitSizes.parse(arguments.value("--mean", Long.toString(SplitSizes.DEFAULT_MEAN)));
        Records records = Records.parse(arguments.value("--records", "lines"));
        Put put = new Put(conf, sizes, records, arguments.has("--overwrite"));
        Path target = new Path(operands.get(1));
        Put.Result result = arguments.has("--shared")
            ? shared(put, operands.get(0), target) : blocks(put, operands.get(0), target);
        long splits = result.version().manifest().entries().size();
        long bytes = result.version().manifest().fileLength();
        out.println(target + ": " + splits + " splits, " + Numbers.bytes(bytes) + "; written "
            + result.writtenSplits() + " splits, " + Numbers.bytes(result.writtenBytes()));
        return 0;
    }

    private static Put.Result blocks(Put put, String source, Path target) throws IOException {
        if (source.equals("-")) {
            // standard input belongs to the process, and stays open
            return put.blocks(new FilterInputStream(System.in) {
                @Override
                public void close() {
                }
            }, "standard input", target);
        }
        try (InputStream in = new FileInputStream(source)) {
            return put.blocks(in, source, target);
        }
    }

    private static Put.Result shared(Put put, String source, Path target) throws IOException {
        if (!source.equals("-")) {
            return put.shared(new Path(new File(source).toURI()), target);
        }
        // read twice, so it has to be somewhere
        File spool = File.createTempFile("onefold-put-", ".tmp");
        try {
            Files.copy(System.in, spool.toPath(), StandardCopyOption.REPLACE_EXISTING);
            return put.shared(new Path(spool.toURI()), target);
        } finally {
            Files.deleteIfExists(spool.toPath());
        }
    }
}
