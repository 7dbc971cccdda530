package onefold.incremental.mapreduce;

import java.io.File;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRConfig;

/** Settings of a small YARN, and of jobs on it. */
final class Settings {
    /** Code that runs for seconds is not worth optimising, nor its memory worth threads that collect it. */
    private static final String SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

    private Settings() {
    }

    static void ofYarn(Configuration conf) {
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");
        conf.setInt("yarn.nodemanager.resource.memory-mb", 6144);
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
        conf.set("yarn.nodemanager.aux-services", "mapreduce_shuffle");
        conf.set("yarn.nodemanager.aux-services.mapreduce_shuffle.class", "org.apache.hadoop.mapred.ShuffleHandler");
        conf.set("mapreduce.shuffle.port", "0");
    }

    static void ofJobs(Configuration conf) {
        conf.set(MRConfig.FRAMEWORK_NAME, MRConfig.YARN_FRAMEWORK_NAME);
        conf.set("mapreduce.application.classpath", hadoopJars());
        conf.set("yarn.application.classpath", hadoopJars());
        conf.set("yarn.app.mapreduce.am.staging-dir", "/staging");
        conf.set("mapreduce.map.java.opts", "-Xmx200m " + SHORT_LIVED);
        conf.set("mapreduce.reduce.java.opts", "-Xmx200m " + SHORT_LIVED);
        conf.setInt("mapreduce.map.memory.mb", 256);
        conf.setInt("mapreduce.reduce.memory.mb", 256);
        conf.setInt("mapreduce.task.io.sort.mb", 20);
        // tasks of jobs with one reduce run in the application's own process: others take seconds to start
        conf.setBoolean("mapreduce.job.ubertask.enable", true);
        conf.setInt("yarn.app.mapreduce.am.resource.mb", 768);
        conf.set("yarn.app.mapreduce.am.command-opts",
            "-Xmx500m --add-opens=java.base/java.lang=ALL-UNNAMED " + SHORT_LIVED);
    }

    /** What tasks need of the class path: not these tests, and not onefold, which comes with the job. */
    static String hadoopJars() {
        return String.join(File.pathSeparator, Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(entry -> !new File(entry).getName().contains("onefold") && !entry.endsWith("test-classes")).toList());
    }
}
