package onefold.incremental.input;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/** A split of a job in Hadoop's new API. */
public final class ContentSplit extends FileSplit {
    private Piece piece;

    /** For Hadoop, which fills it by {@link #readFields}. */
    public ContentSplit() {
    }

    public ContentSplit(Piece piece, String[] hosts) {
        super(piece.split().file(), piece.split().offset(), piece.split().length(), hosts);
        this.piece = piece;
    }

    public Piece piece() {
        return piece;
    }

    @Override
    public void write(DataOutput out) throws IOException {
        super.write(out);
        piece.write(out);
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        super.readFields(in);
        piece = Piece.read(in);
    }
}
