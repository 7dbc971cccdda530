package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;
import onefold.incremental.Refused;
import onefold.incremental.Release;
import onefold.incremental.input.Piece;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

class MemoSplitTest {
    private static MemoSplit read(byte[] bytes) throws IOException {
        MemoSplit split = new MemoSplit();
        split.readFields(new DataInputStream(new ByteArrayInputStream(bytes)));
        return split;
    }

    @Test
    void aTaskReadsWhatItsOwnReleasePlannedAndNothingElse() throws IOException {
        SplitRef split = new SplitRef(new Path("file:/a"), 3, 5, Fingerprint.of(new byte[32]), 3);
        MemoSplit written = new MemoSplit(
            List.of(new MemoSplit.Item(new Piece(split, Records.LINES), MemoSplit.Action.VERIFY)), new String[0]);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        written.write(new DataOutputStream(bytes));
        assertEquals(written.items(), read(bytes.toByteArray()).items());

        ByteArrayOutputStream other = new ByteArrayOutputStream();
        new DataOutputStream(other).writeUTF("99.0.0");
        int stamp = 2 + Release.VERSION.length();
        other.write(bytes.toByteArray(), stamp, bytes.size() - stamp);
        String message = assertThrows(Refused.class, () -> read(other.toByteArray())).getMessage();
        assertTrue(message.startsWith("the job was planned by onefold 99.0.0, and its task runs"), message);
    }
}
