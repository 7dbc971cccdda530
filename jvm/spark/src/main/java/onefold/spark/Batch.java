package onefold.spark;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.Release;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputSplit;

/** What one task does: items in their order. Public because Hadoop makes it by reflection. */
public final class Batch extends InputSplit implements Writable {
    private List<Item> items = new ArrayList<>();
    private String records = "lines";
    private boolean hasMemo;
    private long length = 1;
    private String[] hosts = {};

    /** For Hadoop, which fills it by {@link #readFields}. */
    public Batch() {
    }

    Batch(List<Item> items, String records, boolean hasMemo, long length, String[] hosts) {
        this.items = List.copyOf(items);
        this.records = records;
        this.hasMemo = hasMemo;
        // Spark leaves out splits of no length
        this.length = Math.max(1, length);
        this.hosts = hosts.clone();
    }

    List<Item> items() {
        return items;
    }

    String records() {
        return records;
    }

    /** Whether entries are read and written. */
    boolean hasMemo() {
        return hasMemo;
    }

    @Override
    public long getLength() {
        return length;
    }

    @Override
    public String[] getLocations() {
        return hosts.clone();
    }

    @Override
    public void write(DataOutput out) throws IOException {
        Release.write(out);
        out.writeUTF(records);
        out.writeBoolean(hasMemo);
        out.writeLong(length);
        out.writeInt(items.size());
        for (Item item : items) {
            item.write(out);
        }
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        Release.ensureSame(in);
        records = in.readUTF();
        hasMemo = in.readBoolean();
        length = in.readLong();
        int count = in.readInt();
        items = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            items.add(Item.read(in));
        }
    }
}
