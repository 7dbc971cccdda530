package onefold.incremental.mapreduce;

import java.util.List;
import java.util.Set;
import org.apache.hadoop.mapred.JobConf;

/** A task's configuration, and whether the mapper looks at what differs from task to task or is not in the key. */
final class WatchedConf extends JobConf {
    private static final Set<String> OF_TASKS = Set.of("mapreduce.job.id", "mapred.job.id",
        "mapreduce.job.application.attempt.id", "mapred.tip.id", "mapred.work.output.dir", "map.input.file",
        "map.input.start", "map.input.length", "mapreduce.job.local.dir", "job.local.dir",
        "mapreduce.job.input.file", "mapred.input.dir", "mapred.output.dir");
    private static final List<String> OF_TASKS_PREFIXES = List.of("mapreduce.task.attempt.", "mapreduce.task.id",
        "mapreduce.task.partition", "mapreduce.task.output.", "mapred.task.id", "mapred.task.partition",
        "mapreduce.map.input.");

    private final Looked looked;

    WatchedConf(JobConf job, Looked looked) {
        super(job);
        this.looked = looked;
    }

    private void watch(String name) {
        // the constructor of the superclass asks too
        boolean isOfTasks = name != null
            && (OF_TASKS.contains(name) || Keys.LEFT_OUT.contains(name) || OF_TASKS_PREFIXES.stream().anyMatch(name::startsWith));
        if (looked != null && isOfTasks) {
            looked.at("the property " + name);
        }
    }

    @Override
    public String get(String name) {
        watch(name);
        return super.get(name);
    }

    @Override
    public String get(String name, String otherwise) {
        watch(name);
        return super.get(name, otherwise);
    }

    @Override
    public String getRaw(String name) {
        watch(name);
        return super.getRaw(name);
    }
}
