package onefold.spark;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import java.security.MessageDigest;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Stream;
import onefold.incremental.Refused;
import onefold.incremental.memo.Run;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.SplitSizes;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.java.function.Function2;
import scala.Tuple2;

/**
 * A text input whose results are kept by the content of its splits, for jobs in Java and Scala.
 *
 * <pre>{@code
 * JavaPairRDD<String, Integer> counts = Incremental.of(context, "hdfs://…/log").memo("hdfs://…/memo")
 *     .mapPartitions(lines -> pairs(lines)).reduceByKey(Integer::sum);
 * }</pre>
 *
 * <p>Nothing is read before an action is called. A result is used again if the split's bytes, the jar or
 * folder with the functions' classes, what the functions captured, and the versions of Java and Spark
 * are the same. Functions must depend on nothing else, or {@link #version} must say what else.
 */
public final class Incremental {
    private final JavaSparkContext context;
    private final List<String> paths;
    private final String memo;
    private final String version;
    private final String records;
    private final String mean;
    private final double verifiedShare;

    private Incremental(JavaSparkContext context, List<String> paths, String memo, String version, String records,
            String mean, double verifiedShare) {
        this.context = context;
        this.paths = paths;
        this.memo = memo;
        this.version = version;
        this.records = records;
        this.mean = mean;
        this.verifiedShare = verifiedShare;
    }

    /** An input of these files and folders, without a memo. */
    public static Incremental of(JavaSparkContext context, String... paths) {
        return new Incremental(context, List.of(paths), null, null, "lines",
            Long.toString(SplitSizes.DEFAULT_MEAN), 0);
    }

    /** Keeps results in this folder, which must belong to the user with mode 700. */
    public Incremental memo(String folder) {
        return new Incremental(context, paths, folder, version, records, mean, verifiedShare);
    }

    /** Names what the results depend on besides the functions and the input. */
    public Incremental version(String named) {
        return new Incremental(context, paths, memo, named, records, mean, verifiedShare);
    }

    /** Records and mean length of splits in files without a manifest, as {@code put} takes them. */
    public Incremental splits(String ofRecords, String meanLength) {
        return new Incremental(context, paths, memo, version, ofRecords, meanLength, verifiedShare);
    }

    /** Computes this share of the known results, 0 to 1, and fails if one differs. */
    public Incremental verify(double share) {
        return new Incremental(context, paths, memo, version, records, mean, share);
    }

    /** The results of {@code function}, which gets the records of one split at a time. */
    public <T> Results<T> mapPartitions(FlatMapFunction<java.util.Iterator<String>, T> function) {
        return new Results<>(function);
    }

    private Job job(String operation, TreeMap<String, String> parts, Object... functions) throws IOException {
        String reason = memo == null ? "no folder was given" : "";
        parts.put("operation", operation);
        parts.put("java", System.getProperty("java.version"));
        parts.put("spark", context.version());
        if (version != null) {
            parts.put("version", version);
        }
        for (int i = 0; i < functions.length; i++) {
            String code = codeOf(functions[i].getClass());
            if (code == null && version == null) {
                reason = "the code of " + functions[i].getClass().getName()
                    + " is in no jar or folder; name it with version(…)";
            }
            parts.put("code " + i, code == null ? "by version" : code);
            Captured captured = Captured.by(functions[i]);
            parts.put("function " + i, captured.digest());
            if (captured.hasAccumulator()) {
                reason = functions[i].getClass().getName() + " adds to an accumulator, which splits that are replayed"
                    + " would not; yield what is to be counted, and count it behind the operation";
            }
        }
        String used = reason.isEmpty() ? memo : null;
        return Job.of("Java " + operation, paths, used, parts, true, reason, records, mean, verifiedShare);
    }

    /** A digest of the jar or folder that has the class, or null. */
    private static String codeOf(Class<?> type) throws IOException {
        CodeSource source = type.getProtectionDomain().getCodeSource();
        if (source == null || source.getLocation() == null) {
            return null;
        }
        Path place;
        try {
            place = Path.of(URI.create(source.getLocation().toURI().toString()));
        } catch (URISyntaxException | IllegalArgumentException | java.nio.file.FileSystemNotFoundException e) {
            return null;
        }
        MessageDigest digest = Fingerprint.digest();
        try (Stream<Path> files = Files.walk(place)) {
            for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                digest.update(place.relativize(file).toString().getBytes(java.nio.charset.StandardCharsets.UTF_8));
                digest.update((byte) 0);
                try (InputStream in = Files.newInputStream(file)) {
                    byte[] buffer = new byte[1 << 16];
                    for (int read; (read = in.read(buffer)) > 0;) {
                        digest.update(buffer, 0, read);
                    }
                }
            }
        }
        return Fingerprint.finish(digest).toString();
    }

    /**
     * What a function yields.
     *
     * @param <T> must be serializable
     */
    public final class Results<T> {
        private final FlatMapFunction<java.util.Iterator<String>, T> map;

        private Results(FlatMapFunction<java.util.Iterator<String>, T> map) {
            this.map = map;
        }

        /** The results, those of a split in their order and splits in the order of the input. */
        public Planned<JavaRDD<T>> rdd() throws IOException {
            return run(new JavaFunctions(map, null, 1), job("mapPartitions", new TreeMap<>(), map));
        }

        private <R> Planned<JavaRDD<R>> run(JavaFunctions functions, Job job) throws IOException {
            MapPlanner planner = new MapPlanner(context, job);
            JavaRDD<byte[]> out = Stage.run(context, job, frames -> frames.mapPartitions(functions, true), planner,
                Metrics.of(context), false);
            return new Planned<>(decoded(out), planner::report);
        }

        /**
         * The results as pairs, with the values of equal keys combined. The memo keeps what is combined
         * within each split. T must be {@code Tuple2<K, V>}; {@code reduce} must be associative and commutative.
         */
        public <K, V> Planned<JavaPairRDD<K, V>> reduceByKey(Function2<V, V, V> reduce) throws IOException {
            Planned<JavaRDD<Tuple2<K, V>>> pairs =
                run(new JavaFunctions(map, any(reduce), 1), job("reduceByKey", new TreeMap<>(), map, reduce));
            return new Planned<>(pairs(pairs.rdd()).reduceByKey(reduce), pairs.planner());
        }

        /**
         * As {@link #reduceByKey}, with results of groups of splits kept as well, so that a change combines
         * one path of a tree. Each of the {@code parts} of the keys must fit a task's memory. Values are
         * combined in the order of the input; {@code reduce} need not be commutative.
         */
        public <K, V> Planned<JavaPairRDD<K, V>> reduceByKeyInTree(Function2<V, V, V> reduce, int parts)
                throws IOException {
            TreeMap<String, String> of = new TreeMap<>();
            of.put(Run.TREE_PARTS, Integer.toString(parts));
            Job job = job("reduceByKeyInTree", of, map, reduce);
            if (job.spec().memo() == null) {
                throw new Refused("a reduce in a tree keeps it in the memo: " + job.reason());
            }
            JavaFunctions functions = new JavaFunctions(map, any(reduce), parts);
            Stage stage = frames -> frames.mapPartitions(functions, true);
            Metrics metrics = Metrics.of(context);
            TreePlanner planner = new TreePlanner(context, job, stage, metrics, parts);
            JavaRDD<byte[]> out = Stage.run(context, job, stage, planner, metrics, false);
            return new Planned<>(pairs(Incremental.<Tuple2<K, V>>decoded(out)), planner::report);
        }
    }

    /** What plans an operation. */
    interface Planner {
        Plan report() throws IOException;
    }

    /**
     * An RDD and how it is computed.
     *
     * @param rdd computed when an action is called
     */
    public record Planned<R>(R rdd, Planner planner) {
        /** What is replayed and what is computed, which this plans unless an action did. */
        public Plan plan() throws IOException {
            return planner.report();
        }
    }

    @SuppressWarnings("unchecked")
    private static Function2<Object, Object, Object> any(Function2<?, ?, ?> function) {
        return (Function2<Object, Object, Object>) function;
    }

    /** With the class that Spark collects pairs by. */
    private static <K, V> JavaPairRDD<K, V> pairs(JavaRDD<Tuple2<K, V>> results) {
        return results.mapToPair(pair -> pair);
    }

    /** The objects of frames; the memo's folder is the user's own, so they are what this job wrote. */
    @SuppressWarnings("unchecked")
    private static <T> JavaRDD<T> decoded(JavaRDD<byte[]> frames) {
        return frames.flatMap(content -> (java.util.Iterator<T>) JavaFunctions.decode(content).iterator());
    }
}
