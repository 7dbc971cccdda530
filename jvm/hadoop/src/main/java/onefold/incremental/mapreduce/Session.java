package onefold.incremental.mapreduce;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import onefold.incremental.Refused;
import onefold.incremental.files.Leases;
import onefold.incremental.memo.Memo;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;

/** One run of a program: its memo, its class loader, and the jobs that it submitted. */
final class Session implements Closeable {
    private static final String PLAN = "onefold.memo.plan";
    private static volatile Session current;

    private final Path folder;
    private final int verified;
    private final File jar;
    private final JobLoader loader;
    private final ClassLoader outer = Thread.currentThread().getContextClassLoader();
    private final Map<String, List<MemoSplit>> plans = new ConcurrentHashMap<>();
    private final List<Leases.Lease> leases = new ArrayList<>();
    private final Thread atExit = new Thread(this::giveLeasesBack);
    private boolean hasSeenAJob;

    private Session(Path folder, int verified, File jar) throws IOException {
        this.folder = folder;
        this.verified = verified;
        this.jar = jar;
        loader = JobLoader.of(jar);
    }

    /** Begins the run of a program in {@code jar}; a process has one at a time. */
    static Session begin(Path folder, int verified, File jar) throws IOException {
        Session session = new Session(folder, verified, jar);
        current = session;
        Thread.currentThread().setContextClassLoader(session.loader);
        // programs end by System.exit as often as not
        Runtime.getRuntime().addShutdownHook(session.atExit);
        return session;
    }

    static Session current() {
        return current;
    }

    ClassLoader loader() {
        return loader;
    }

    /** Lets a job that is about to be submitted use the memo, or says why it does not. */
    synchronized void prepare(JobConf job) {
        if (job.get(PLAN) != null) {
            return;
        }
        hasSeenAJob = true;
        String name = "onefold: job '" + job.getJobName() + "'";
        try {
            Shape shape = Shape.of(job);
            Memo memo = writable(job);
            Leases.Lease lease = memo.lease();
            leases.add(lease);
            long begun = System.nanoTime();
            Plan plan = Plan.of(job, shape, memo, lease, verified, jar);
            String planned = String.format(Locale.ROOT, "planned in %.3f s", (System.nanoTime() - begun) / 1e9);
            shape.rewrite(job, memo, plan.key());
            String id = Integer.toString(plans.size());
            plans.put(id, plan.splits());
            job.set(PLAN, id);
            System.err.println(name + ": " + plan.summary() + "; " + planned + "; memo " + memo.folder());
        } catch (Refused e) {
            System.err.println(name + " runs without the memo: " + e.getMessage());
        } catch (IOException e) {
            System.err.println(name + " runs without the memo, since it could not be planned: " + e);
        }
    }

    private Memo writable(JobConf job) throws Refused {
        try {
            Memo memo = Memo.at(job, new Path(folder.toString()));
            memo.ensureWritable();
            return memo;
        } catch (IOException e) {
            throw new Refused("the memo " + folder + " cannot be written: " + e.getMessage(), e);
        }
    }

    /** The splits that were planned for a job. */
    static List<MemoSplit> splits(Configuration job) throws IOException {
        List<MemoSplit> splits = current == null ? null : current.plans.get(job.get(PLAN, ""));
        if (splits == null) {
            throw new IOException("the job was planned by another process; submit it by onefold-hadoop.jar run");
        }
        return splits;
    }

    void sayIfNoJobWasSeen() {
        if (!hasSeenAJob) {
            System.err.println("onefold: the program submitted no job that could be seen, so the memo was not used");
        }
    }

    private synchronized void giveLeasesBack() {
        for (Leases.Lease lease : leases) {
            try {
                lease.close();
            } catch (IOException e) {
                System.err.println("onefold: a lease is left in " + folder + " and dies by itself: " + e.getMessage());
            }
        }
        leases.clear();
    }

    @Override
    public void close() throws IOException {
        giveLeasesBack();
        Runtime.getRuntime().removeShutdownHook(atExit);
        Thread.currentThread().setContextClassLoader(outer);
        current = null;
        loader.close();
    }
}
