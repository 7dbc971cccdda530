package onefold.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonRDD;

/** What computes the results of a task's items, from {@link Frames} to frames. */
interface Stage {
    JavaRDD<byte[]> apply(JavaRDD<byte[]> frames);

    static Stage ofPython(PythonFunction function) {
        return frames -> new PythonRDD(frames.rdd(), function, true, false).asJavaRDD();
    }

    /** What there is to do, through the stage, published. Nothing is planned before an action. */
    static JavaRDD<byte[]> run(JavaSparkContext context, Job job, Stage stage, WorkFormat.Planner planner,
            Metrics metrics, boolean isStatus) throws IOException {
        WorkFormat.register(job.spec(), planner);
        Configuration conf = job.conf(context);
        JavaRDD<byte[]> frames = context
            .newAPIHadoopRDD(conf, WorkFormat.class, NullWritable.class, byte[].class).values()
            .setName("onefold " + job.name());
        return stage.apply(frames).mapPartitions(new WorkWriter(job.spec(), metrics, isStatus), true)
            .setName("onefold " + job.name());
    }
}
