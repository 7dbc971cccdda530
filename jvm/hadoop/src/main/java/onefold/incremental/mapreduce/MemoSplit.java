package onefold.incremental.mapreduce;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.Release;
import onefold.incremental.input.Piece;
import onefold.incremental.layout.SplitRef;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputSplit;

/** What one map task does: one split to compute, or several whose results it replays. In both APIs. */
public final class MemoSplit extends InputSplit implements org.apache.hadoop.mapred.InputSplit, Writable {
    private static final int MAX_ITEMS = 1 << 20;

    private final List<Item> items = new ArrayList<>();
    private String[] hosts = new String[0];

    /** What is to be done with a split; the ordinal is sent to the task. */
    enum Action { COMPUTE, REPLAY, VERIFY }

    /** A split of the input. */
    record Item(Piece piece, Action action) {
        SplitRef split() {
            return piece.split();
        }
    }

    /** For Hadoop, which fills it by {@link #readFields}. */
    public MemoSplit() {
    }

    MemoSplit(List<Item> items, String[] hosts) {
        this.items.addAll(items);
        this.hosts = hosts;
    }

    List<Item> items() {
        return items;
    }

    /** Bytes to read, so that Hadoop starts the longest task first. */
    @Override
    public long getLength() {
        return items.stream().filter(item -> item.action != Action.REPLAY).mapToLong(item -> item.split().length()).sum();
    }

    @Override
    public String[] getLocations() {
        return hosts.clone();
    }

    @Override
    public void write(DataOutput out) throws IOException {
        Release.write(out);
        out.writeInt(items.size());
        for (Item item : items) {
            item.piece.write(out);
            out.writeByte(item.action.ordinal());
        }
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        Release.ensureSame(in);
        items.clear();
        int count = in.readInt();
        if (count < 0 || count > MAX_ITEMS) {
            throw new IOException("a task of " + count + " splits, expected at most " + MAX_ITEMS);
        }
        for (int i = 0; i < count; i++) {
            Piece piece = Piece.read(in);
            items.add(new Item(piece, Action.values()[in.readByte()]));
        }
    }

    @Override
    public String toString() {
        return items.size() == 1 ? items.get(0).action + " " + items.get(0).split() : items.size() + " splits to replay";
    }
}
