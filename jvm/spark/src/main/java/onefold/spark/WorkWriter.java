package onefold.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.util.TaskCompletionListener;

/** Publishes what the function computed, and passes on all results: replayed ones too. */
final class WorkWriter implements FlatMapFunction<Iterator<byte[]>, byte[]> {
    private static final long serialVersionUID = 1;

    private final Spec spec;
    private final Metrics metrics;
    /** Whether downstream gets, in place of results, the number of each item and whether it was done. */
    private final boolean isStatus;

    WorkWriter(Spec spec, Metrics metrics, boolean isStatus) {
        this.spec = spec;
        this.metrics = metrics;
        this.isStatus = isStatus;
    }

    @Override
    public Iterator<byte[]> call(Iterator<byte[]> frames) {
        Results results = new Results(frames, Handover.of(spec));
        TaskContext.get().addTaskCompletionListener(new TaskCompletionListener() {
            @Override
            public void onTaskCompletion(TaskContext context) {
                results.discard();
            }
        });
        return results;
    }

    static int statusIndex(byte[] status) {
        return ByteBuffer.wrap(status).getInt();
    }

    static boolean isDone(byte[] status) {
        return status[4] != 0;
    }

    private final class Results implements Iterator<byte[]> {
        private final Iterator<byte[]> frames;
        private final Handover handover;
        private Frames.Header header;
        private Memo.NewEntry entry;
        private InputStream replay;
        private byte[] next;

        Results(Iterator<byte[]> frames, Handover handover) {
            this.frames = frames;
            this.handover = handover;
        }

        @Override
        public boolean hasNext() {
            try {
                while (next == null && (replay != null || frames.hasNext())) {
                    if (replay != null) {
                        replay();
                    } else {
                        take(frames.next());
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return next != null;
        }

        @Override
        public byte[] next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            byte[] result = next;
            next = null;
            return result;
        }

        private void take(byte[] frame) throws IOException {
            switch (frame[0]) {
                case Frames.BEGIN -> begin(Frames.Header.of(frame));
                case Frames.OUTPUT -> output(frame);
                case Frames.END -> end();
                case Frames.REPLAY -> beginReplay(Frames.Header.of(frame));
                case Frames.ABANDON -> abandon(Frames.Header.of(frame));
                default -> throw new IOException("a frame of kind " + frame[0]
                    + ": the Python package and the jar of onefold-spark have different versions");
            }
        }

        private JobKey key() {
            return spec.key(header.records());
        }

        private void begin(Frames.Header begun) {
            header = begun;
            if (header.has(Frames.WRITTEN)) {
                tryWrite(() -> entry = handover.memo().create(key(), header.name(), Spec.KIND));
            }
        }

        private void output(byte[] frame) {
            if (entry != null) {
                tryWrite(() -> Frames.store(entry.out(), frame));
            }
            emit(frame);
        }

        private void emit(byte[] frame) {
            boolean isWanted = header.part() == Item.ALL || header.part() == Frames.part(frame);
            if (!isStatus && isWanted) {
                next = Frames.content(frame);
            }
        }

        private void end() {
            if (entry != null) {
                tryWrite(() -> {
                    entry.commit();
                    entry.close();
                    entry = null;
                    metrics.written().add(1);
                });
            }
            (header.has(Frames.VERIFIED) ? metrics.verified() : metrics.computed()).add(1);
            status(true);
        }

        private void beginReplay(Frames.Header begun) throws IOException {
            header = begun;
            Optional<InputStream> payload = handover.take(header.replay());
            if (payload.isEmpty()) {
                throw new IOException("an item is replayed twice in a task");
            }
            metrics.replayed().add(1);
            if (isStatus) {
                payload.get().close();
                status(true);
            } else {
                replay = payload.get();
            }
        }

        private void replay() throws IOException {
            byte[] frame = Frames.load(replay, Frames.OUTPUT);
            if (frame == null) {
                replay.close();
                replay = null;
            } else {
                emit(frame);
            }
        }

        private void abandon(Frames.Header begun) throws IOException {
            header = begun;
            discard();
            if (!isStatus) {
                throw new IOException("an entry of the memo that a reduce needs was lost or damaged while the job"
                    + " ran; run the job again, which computes it anew");
            }
            status(false);
        }

        private void status(boolean isDone) {
            if (isStatus) {
                next = ByteBuffer.allocate(5).putInt(header.index()).put((byte) (isDone ? 1 : 0)).array();
            }
        }

        /** A memo that fails costs the next run time, and this run nothing. */
        private void tryWrite(Write write) {
            try {
                write.run();
            } catch (IOException e) {
                System.err.println("onefold: cannot write an entry of the memo: " + e.getMessage()
                    + "; the job goes on without it");
                metrics.unwritten().add(1);
                discard();
            }
        }

        /** Nothing of an entry that was not committed stays. */
        void discard() {
            if (entry == null) {
                return;
            }
            try {
                entry.close();
            } catch (IOException e) {
                System.err.println("onefold: cannot delete a temporary file of the memo: " + e.getMessage());
            }
            entry = null;
        }
    }

    /** A step of writing an entry. */
    private interface Write {
        void run() throws IOException;
    }
}
