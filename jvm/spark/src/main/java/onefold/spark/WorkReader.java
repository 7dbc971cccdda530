package onefold.spark;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Optional;
import onefold.incremental.input.Piece;
import onefold.incremental.memo.DamagedEntry;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/** Turns the items of a batch into frames: replays what the memo has, and sends out what has to be computed. */
final class WorkReader extends RecordReader<NullWritable, byte[]> {
    private static final int CHUNK = 1 << 20;

    private Configuration conf;
    private Batch batch;
    private Handover handover;
    private JobKey key;
    private Iterator<Item> items;
    private int done;

    /** Frames that are ready. */
    private final ArrayDeque<byte[]> ready = new ArrayDeque<>();
    /** The split being sent, or null. */
    private InputStream data;
    /** The known result being sent, or null; children that come after it. */
    private InputStream known;
    private Iterator<Item.Child> children;
    private Item item;
    private byte[] current;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
        conf = context.getConfiguration();
        batch = (Batch) split;
        Spec spec = Spec.get(conf);
        handover = Handover.open(spec, conf, batch.hasMemo());
        key = spec.key(batch.records());
        items = batch.items().iterator();
    }

    @Override
    public boolean nextKeyValue() throws IOException {
        while (ready.isEmpty()) {
            if (known != null) {
                sendKnown();
            } else if (children != null) {
                nextChild();
            } else if (data != null) {
                sendData();
            } else if (items.hasNext()) {
                item = items.next();
                done++;
                begin();
            } else {
                return false;
            }
        }
        current = ready.poll();
        return true;
    }

    private void begin() throws IOException {
        boolean hasMark = item.split() != null
            && new Piece(item.split(), Records.parse(batch.records())).startsWithMark(conf);
        int mark = hasMark ? Frames.MARK : 0;
        boolean isMemoised = batch.hasMemo() && !hasMark;
        Optional<InputStream> stored = isMemoised ? open(item.name()) : Optional.empty();
        if (stored.isPresent() && !item.isVerified()) {
            ready.add(header(0, handover.put(stored.get())).frame(Frames.REPLAY));
            return;
        }
        int flags = mark | (item.split() == null ? Frames.NODE : 0)
            | (stored.isPresent() ? Frames.VERIFIED : isMemoised ? Frames.WRITTEN : 0);
        ready.add(header(flags, Frames.NO_REPLAY).frame(Frames.BEGIN));
        known = stored.orElse(null);
        if (item.split() == null) {
            children = item.children().iterator();
        } else {
            data = item.split().open(conf);
        }
    }

    private Frames.Header header(int flags, int replay) {
        return new Frames.Header(flags, item.index(), item.name(), item.part(), replay, batch.records());
    }

    /** An entry; nothing if it is missing or damaged, which is told. */
    private Optional<InputStream> open(Fingerprint name) throws IOException {
        Memo memo = handover.memo();
        try {
            return memo.read(key, name, Spec.KIND);
        } catch (DamagedEntry e) {
            System.err.println("onefold: " + e.getMessage() + "; computing it anew");
            memo.delete(key, name);
            return Optional.empty();
        }
    }

    private void sendKnown() throws IOException {
        byte[] frame = Frames.load(known, Frames.KNOWN);
        if (frame == null) {
            known.close();
            known = null;
        } else if (item.split() != null || isWanted(frame)) {
            ready.add(frame);
        }
    }

    private boolean isWanted(byte[] frame) {
        return Frames.part(frame) == item.part();
    }

    private void nextChild() throws IOException {
        if (!children.hasNext()) {
            children = null;
            ready.add(new byte[] {Frames.END});
            return;
        }
        Optional<InputStream> stored = open(children.next().name());
        if (stored.isPresent()) {
            known = stored.get();
        } else {
            children = null;
            ready.add(header(0, Frames.NO_REPLAY).frame(Frames.ABANDON));
        }
    }

    private void sendData() throws IOException {
        byte[] chunk = new byte[CHUNK];
        int read = data.readNBytes(chunk, 0, CHUNK);
        if (read > 0) {
            ready.add(Frames.frame(Frames.DATA, chunk, read));
        } else {
            data.close();
            data = null;
            ready.add(new byte[] {Frames.END});
        }
    }

    @Override
    public NullWritable getCurrentKey() {
        return NullWritable.get();
    }

    @Override
    public byte[] getCurrentValue() {
        return current;
    }

    @Override
    public float getProgress() {
        return (float) done / batch.items().size();
    }

    @Override
    public void close() throws IOException {
        for (InputStream in : new InputStream[] {known, data}) {
            if (in != null) {
                in.close();
            }
        }
    }
}
