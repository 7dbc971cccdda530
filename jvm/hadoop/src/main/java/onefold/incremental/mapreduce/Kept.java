package onefold.incremental.mapreduce;

import java.io.IOException;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Fingerprint;

/** The entry of a split that is being computed. If it cannot be written the computation goes on without. */
final class Kept implements AutoCloseable {
    private Memo.NewEntry entry;
    private Payload.Writer writer;

    Kept(Memo memo, JobKey key, Fingerprint split) {
        try {
            entry = memo.create(key, split, Payload.KIND);
            writer = new Payload.Writer(entry.out());
        } catch (IOException e) {
            giveUp(e);
        }
    }

    void pair(byte[] key, int keyLength, byte[] value, int valueLength) {
        if (writer != null) {
            try {
                writer.pair(key, 0, keyLength, value, 0, valueLength);
            } catch (IOException e) {
                giveUp(e);
            }
        }
    }

    /** Publishes the entry; false if it could not be written. */
    boolean commit(Counts counts) {
        if (writer == null) {
            return false;
        }
        try {
            for (var count : counts.values().entrySet()) {
                writer.counter(count.getKey().group(), count.getKey().name(), count.getValue());
            }
            writer.end();
            entry.commit();
            return true;
        } catch (IOException e) {
            giveUp(e);
            return false;
        }
    }

    private void giveUp(IOException reason) {
        System.err.println("onefold: the result of a split is not kept: " + reason.getMessage());
        writer = null;
        close();
    }

    @Override
    public void close() {
        if (entry != null) {
            try {
                entry.close();
            } catch (IOException e) {
                System.err.println("onefold: a file is left in the memo's folder tmp: " + e.getMessage());
            }
            entry = null;
        }
    }
}
