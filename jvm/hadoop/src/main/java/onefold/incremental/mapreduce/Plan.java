package onefold.incremental.mapreduce;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import onefold.incremental.Refused;
import onefold.incremental.command.Numbers;
import onefold.incremental.files.Leases;
import onefold.incremental.input.Hosts;
import onefold.incremental.input.InputFiles;
import onefold.incremental.input.Piece;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.layout.Version;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.JobConf;

/** Which splits of a job are computed, and which results are replayed by which task. */
record Plan(JobKey key, List<MemoSplit> splits, Run run, long inOthersOnly) {
    /** A task replays about this many bytes of results, and no more splits than {@link #MOST}. */
    private static final long REPLAYED_BYTES = 128L << 20;
    private static final int MOST = 4096;

    static Plan of(JobConf job, Shape shape, Memo memo, Leases.Lease lease, int verified, File jar)
            throws IOException {
        List<Piece> pieces = pieces(job, shape);
        JobKey key = Keys.of(job, jar);
        Memo.Found found = memo.find(key);
        Set<String> names = new HashSet<>();
        Maker maker = new Maker(new Hosts(job), new Random(), verified);
        for (Piece piece : pieces) {
            Long length = found.entries().get(piece.split().fingerprint());
            maker.add(piece, length);
            if (length != null) {
                names.add(Memo.name(key, piece.split().fingerprint()));
            }
        }
        maker.endReplay();
        lease.narrow(names);
        Run run = new Run(System.currentTimeMillis(), job.getJobName(), key,
            maker.hits, maker.hitBytes, maker.misses, maker.missBytes);
        memo.note(run);
        long inOthersOnly = found.inOthersOnly(pieces.stream().map(piece -> piece.split().fingerprint()).toList());
        return new Plan(key, maker.splits, run, inOthersOnly);
    }

    /** All splits of the job's input. */
    private static List<Piece> pieces(JobConf job, Shape shape) throws IOException {
        Records expected = shape.records(job);
        Configuration reading = new Configuration(job);
        reading.setIfUnset(InputFiles.RECORDS, expected.toString());
        InputFiles files = new InputFiles(reading, job.getBoolean(FileInputFormat.INPUT_DIR_RECURSIVE, false));
        List<Piece> pieces = new ArrayList<>();
        for (Path file : list(files, job)) {
            Version version = files.version(file);
            Records records = version.manifest().records();
            if (!records.equals(expected)) {
                throw new Refused(file + " is split for " + records + ", and the job reads " + expected
                    + "; run put again with --records");
            }
            version.splits().forEach(split -> pieces.add(new Piece(split, records)));
        }
        return pieces;
    }

    private static List<Path> list(InputFiles files, JobConf job) throws IOException {
        try {
            return files.list(FileInputFormat.getInputPaths(job));
        } catch (FileNotFoundException e) {
            // the job says so in its own words
            throw new Refused(e.getMessage(), e);
        }
    }

    String summary() {
        long splitCount = run.hits() + run.misses();
        return run.hits() + " of " + splitCount + " splits replayed (" + Numbers.share(run.hits(), splitCount) + "), "
            + run.misses() + " computed, " + Numbers.bytes(run.missBytes())
            + (inOthersOnly > 0 ? "; " + inOthersOnly + " of them have a result in the format of another release of onefold" : "");
    }

    /** Makes the tasks' splits. */
    private static final class Maker {
        private final Hosts hosts;
        private final Random random;
        private final int verified;
        private final List<MemoSplit> splits = new ArrayList<>();
        private List<MemoSplit.Item> replay = new ArrayList<>();
        private long replayBytes;
        private long hits;
        private long hitBytes;
        private long misses;
        private long missBytes;

        Maker(Hosts hosts, Random random, int verified) {
            this.hosts = hosts;
            this.random = random;
            this.verified = verified;
        }

        /** Adds a split, whose entry has {@code entryLength} bytes or is missing. */
        void add(Piece piece, Long entryLength) throws IOException {
            SplitRef split = piece.split();
            if (entryLength == null) {
                misses++;
                missBytes += split.length();
                addTask(piece, MemoSplit.Action.COMPUTE);
                return;
            }
            hits++;
            hitBytes += split.length();
            if (random.nextInt(100) < verified) {
                addTask(piece, MemoSplit.Action.VERIFY);
                return;
            }
            replay.add(new MemoSplit.Item(piece, MemoSplit.Action.REPLAY));
            replayBytes += entryLength;
            if (replayBytes >= REPLAYED_BYTES || replay.size() >= MOST) {
                endReplay();
            }
        }

        private void addTask(Piece piece, MemoSplit.Action action) throws IOException {
            MemoSplit.Item item = new MemoSplit.Item(piece, action);
            splits.add(new MemoSplit(List.of(item), hosts.of(piece.split())));
        }

        void endReplay() {
            if (!replay.isEmpty()) {
                splits.add(new MemoSplit(replay, new String[0]));
                replay = new ArrayList<>();
                replayBytes = 0;
            }
        }
    }
}
