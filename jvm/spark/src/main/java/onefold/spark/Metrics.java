package onefold.spark;

import java.io.Serializable;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * Counters that Spark's UI shows with each stage. A task that runs twice counts twice; the plan's
 * numbers are exact.
 */
record Metrics(LongAccumulator replayed, LongAccumulator computed, LongAccumulator verified,
        LongAccumulator written, LongAccumulator unwritten) implements Serializable {
    static Metrics of(JavaSparkContext context) {
        return new Metrics(named(context, "replayed"), named(context, "computed"), named(context, "verified"),
            named(context, "entries written"), named(context, "entries that could not be written"));
    }

    private static LongAccumulator named(JavaSparkContext context, String name) {
        return context.sc().longAccumulator("onefold: " + name);
    }
}
