package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.layout.Version;
import onefold.incremental.split.Records;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;

/** A split of a job's input, and how its records are told apart: what a task gets. */
public record Piece(SplitRef split, Records records) {
    /** The splits of all files that {@code paths} name. */
    static List<Piece> all(Configuration conf, boolean isRecursive, Path... paths) throws IOException {
        InputFiles files = new InputFiles(conf, isRecursive);
        List<Piece> pieces = new ArrayList<>();
        for (Path file : files.list(paths)) {
            Version version = files.version(file);
            version.splits().forEach(split -> pieces.add(new Piece(split, version.manifest().records())));
        }
        return pieces;
    }

    /**
     * Whether the file begins with a byte order mark here, which is no part of the first record. So the split has
     * another result than the same bytes elsewhere, and no memo keeps it.
     */
    public boolean startsWithMark(Configuration conf) throws IOException {
        if (split.position() != 0 || records.kind() == Records.Kind.LENGTH) {
            return false;
        }
        try (InputStream in = split.open(conf)) {
            return in.read() == 0xef && in.read() == 0xbb && in.read() == 0xbf;
        }
    }

    public void write(DataOutput out) throws IOException {
        SplitCodec.write(out, split);
        Text.writeString(out, records.toString());
    }

    public static Piece read(DataInput in) throws IOException {
        return new Piece(SplitCodec.read(in), Records.parse(Text.readString(in)));
    }
}
