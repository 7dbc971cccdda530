package onefold.spark;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import onefold.incremental.Release;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** What the Python package calls. */
public final class PythonBridge {
    private final JavaRDD<byte[]> results;
    private final Incremental.Planner planner;

    private PythonBridge(JavaRDD<byte[]> results, Incremental.Planner planner) {
        this.results = results;
        this.planner = planner;
    }

    /**
     * An operation of Python functions.
     *
     * @param memo may be null, and {@code reason} then says why
     * @param isTrusting whether results are pickled
     * @param parts how many parts a reduce tree has, or 0 for none
     */
    public static PythonBridge of(JavaSparkContext context, PythonFunction function, String name, List<String> paths,
            String memo, Map<String, String> keyParts, boolean isTrusting, String reason, String records,
            String mean, double verifiedShare, int parts) throws IOException {
        Job job = Job.of(name, paths, memo, new TreeMap<>(keyParts), isTrusting, reason, records, mean,
            verifiedShare);
        Stage stage = Stage.ofPython(function);
        Metrics metrics = Metrics.of(context);
        if (parts == 0) {
            MapPlanner planner = new MapPlanner(context, job);
            return new PythonBridge(Stage.run(context, job, stage, planner, metrics, false), planner::report);
        }
        TreePlanner planner = new TreePlanner(context, job, stage, metrics, parts);
        return new PythonBridge(Stage.run(context, job, stage, planner, metrics, false), planner::report);
    }

    /** The release of this jar. */
    public static String version() {
        return Release.VERSION;
    }

    /** Why a memo cannot be used, or an empty text. */
    public static String unusable(JavaSparkContext context, String memo, boolean isTrusting) throws IOException {
        Spec spec = Spec.of(memo, new TreeMap<>(), isTrusting);
        try {
            spec.open(context.hadoopConfiguration()).ensureWritable();
            return "";
        } catch (onefold.incremental.Refused e) {
            throw e;
        } catch (IOException e) {
            return "the memo " + memo + " cannot be used: " + e.getClass().getSimpleName() + ": " + e.getMessage();
        }
    }

    /** Frames of results. */
    public JavaRDD<byte[]> results() {
        return results;
    }

    /** Frames of results as rows of one binary column. */
    public JavaRDD<Row> rows() {
        return results.map(frame -> RowFactory.create((Object) frame));
    }

    /** What is replayed and what is computed. */
    public Plan plan() throws IOException {
        return planner.report();
    }
}
