package onefold.spark;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import onefold.incremental.memo.Memo;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** What the reader of a task hands over to its writer, past the function between them. */
final class Handover {
    private static final Map<String, Handover> OPEN = new ConcurrentHashMap<>();

    private final Map<Integer, InputStream> replays = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();
    private final Memo memo;

    private Handover(Memo memo) {
        this.memo = memo;
    }

    /** The one of this task and operation; the first call makes it. */
    static Handover open(Spec spec, Configuration conf, boolean hasMemo) throws IOException {
        TaskContext task = TaskContext.get();
        String name = name(spec, task);
        Handover known = OPEN.get(name);
        if (known != null) {
            return known;
        }
        Handover made = new Handover(hasMemo ? spec.open(conf) : null);
        OPEN.put(name, made);
        task.addTaskCompletionListener(new TaskCompletionListener() {
            @Override
            public void onTaskCompletion(TaskContext context) {
                OPEN.remove(name);
                made.close();
            }
        });
        return made;
    }

    /** The one that the reader of this task opened. */
    static Handover of(Spec spec) {
        return OPEN.get(name(spec, TaskContext.get()));
    }

    private static String name(Spec spec, TaskContext task) {
        return task.taskAttemptId() + "/" + spec.id();
    }

    /** Null without a memo. */
    Memo memo() {
        return memo;
    }

    /** Keeps a replay, and returns its number: a task may read an operation twice, as zip with itself does. */
    int put(InputStream payload) {
        int number = count.getAndIncrement();
        replays.put(number, payload);
        return number;
    }

    /** The replay of this number, once. */
    Optional<InputStream> take(int number) {
        return Optional.ofNullable(replays.remove(number));
    }

    private void close() {
        for (InputStream payload : replays.values()) {
            try {
                payload.close();
            } catch (IOException e) {
                System.err.println("onefold: closing an entry of the memo: " + e.getMessage());
            }
        }
    }
}
