package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;

/** Splits on their way to a task. */
public final class SplitCodec {
    private SplitCodec() {
    }

    public static void write(DataOutput out, SplitRef split) throws IOException {
        Text.writeString(out, split.file().toString());
        out.writeLong(split.offset());
        out.writeLong(split.length());
        out.writeLong(split.position());
        out.write(split.fingerprint().bytes());
    }

    public static SplitRef read(DataInput in) throws IOException {
        Path file = new Path(Text.readString(in));
        long offset = in.readLong();
        long length = in.readLong();
        long position = in.readLong();
        byte[] fingerprint = new byte[Fingerprint.LENGTH];
        in.readFully(fingerprint);
        return new SplitRef(file, offset, length, Fingerprint.of(fingerprint), position);
    }
}
