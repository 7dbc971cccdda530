package onefold.incremental.mapreduce;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.Set;
import onefold.incremental.memo.JobKey;
import onefold.incremental.split.Fingerprint;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.util.VersionInfo;

/**
 * The key of a MapReduce job: all that the output of its map tasks may depend on.
 *
 * <p>That is the content of its jars and cache files, Hadoop's version, and each property that does not
 * come from Hadoop's defaults. A property is left out only where it says where things are, who asks, or
 * what happens after the map tasks.
 */
final class Keys {
    /** Where the job reads and writes, what it is called, and what happens to the output of its map tasks. */
    static final Set<String> LEFT_OUT = Set.of(
        "mapreduce.input.fileinputformat.inputdir", "mapreduce.output.fileoutputformat.outputdir",
        "mapreduce.job.name", "mapreduce.job.dir", "mapreduce.job.working.dir", "mapreduce.job.user.name",
        "mapreduce.job.queuename", "mapreduce.job.priority", "mapreduce.job.tags", "mapreduce.job.credentials.binary",
        "mapreduce.job.submithostname", "mapreduce.job.submithostaddress", "mapreduce.job.acl-view-job",
        "mapreduce.job.acl-modify-job", "mapreduce.job.hdfs-servers", "mapreduce.job.maps",
        "mapreduce.framework.name", "mapreduce.input.fileinputformat.numinputfiles",
        // the classes of the map tasks' output are a part of their own
        "mapreduce.job.reduce.class", "mapred.reducer.class", "mapreduce.job.outputformat.class",
        "mapred.output.format.class", "mapreduce.job.partitioner.class", "mapred.partitioner.class",
        "mapreduce.job.output.key.class", "mapreduce.job.output.value.class");

    /** Lists of files; the key has the content of these files instead. */
    private static final Set<String> FILES = Set.of(
        "mapreduce.job.jar", "tmpjars", "tmpfiles", "tmparchives", "mapreduce.job.cache.files",
        "mapreduce.job.cache.archives", "mapreduce.job.cache.files.timestamps", "mapreduce.job.cache.files.filesizes",
        "mapreduce.job.cache.files.visibilities", "mapreduce.job.cache.archives.timestamps",
        "mapreduce.job.cache.archives.filesizes", "mapreduce.job.cache.archives.visibilities",
        "mapreduce.job.classpath.files", "mapreduce.job.classpath.archives");

    private static final List<String> IGNORED_PREFIXES = List.of("onefold.", "yarn.", "dfs.", "fs.", "hadoop.", "ipc.",
        "io.seqfile.", "mapreduce.jobhistory.", "mapreduce.jobtracker.", "mapreduce.cluster.",
        "mapreduce.shuffle.", "mapreduce.client.", "mapreduce.reduce.", "mapreduce.job.reduce.",
        "mapreduce.job.reducer.", "mapreduce.am.", "mapreduce.map.memory.", "mapreduce.map.cpu.",
        "mapreduce.map.resource.", "mapreduce.map.log.", "mapreduce.map.speculative", "mapreduce.map.maxattempts",
        "mapreduce.task.io.", "mapreduce.fileoutputcommitter.", "mapreduce.output.fileoutputformat.compress",
        "mapreduce.map.output.compress");

    private Keys() {
    }

    /** The key of {@code job}, whose program came in {@code jar}. */
    static JobKey of(JobConf job, File jar) throws IOException {
        JobKey.Builder key = new JobKey.Builder()
            .text("format", "mapreduce 1")
            .text("hadoop", VersionInfo.getVersion())
            .text("map output", job.getMapOutputKeyClass().getName() + " " + job.getMapOutputValueClass().getName())
            .text("jar of the program", digest(new FileInputStream(jar)));
        if (job.getJar() != null) {
            key.text("jar", digest(job, job.getJar()));
        }
        for (String list : new String[] {"tmpjars", "tmpfiles", "tmparchives", MRJobConfig.CACHE_FILES,
                MRJobConfig.CACHE_ARCHIVES}) {
            String[] files = job.getTrimmedStrings(list);
            for (int i = 0; i < files.length; i++) {
                key.text(list + " " + i + ": " + nameInTask(files[i]), digest(job, withoutFragment(files[i])));
            }
        }
        for (Map.Entry<String, String> property : job) {
            if (counts(job, property.getKey())) {
                key.bytes("property " + property.getKey(), property.getValue().getBytes(
                    StandardCharsets.UTF_8));
            }
        }
        return key.build();
    }

    private static boolean counts(Configuration job, String name) {
        if (LEFT_OUT.contains(name) || FILES.contains(name) || IGNORED_PREFIXES.stream().anyMatch(name::startsWith)) {
            return false;
        }
        String[] sources = job.getPropertySources(name);
        String last = sources == null || sources.length == 0 ? "" : sources[sources.length - 1];
        return !last.endsWith("-default.xml");
    }

    /** What a task calls a file: the fragment behind its path, or its own name. */
    private static String nameInTask(String file) {
        int fragment = file.indexOf('#');
        return fragment < 0 ? new Path(file).getName() : file.substring(fragment + 1);
    }

    private static String withoutFragment(String file) {
        int fragment = file.indexOf('#');
        return fragment < 0 ? file : file.substring(0, fragment);
    }

    /** A digest of the content of a file, or of all files in a folder. */
    private static String digest(Configuration job, String name) throws IOException {
        Path path = new Path(name);
        boolean isLocal = path.toUri().getScheme() == null && new File(name).exists();
        Path file = isLocal ? new Path(new File(name).toURI()) : path;
        FileSystem fs = file.getFileSystem(job);
        if (fs.getFileStatus(file).isFile()) {
            return digest(fs.open(file));
        }
        MessageDigest digest = Fingerprint.digest();
        for (FileStatus status : fs.listStatus(file)) {
            URI uri = status.getPath().toUri();
            digest.update((status.getPath().getName() + " " + digest(job, uri.toString()) + "\n").getBytes(
                StandardCharsets.UTF_8));
        }
        return "folder sha256:" + Fingerprint.finish(digest);
    }

    private static String digest(InputStream opened) throws IOException {
        try (InputStream in = opened) {
            MessageDigest digest = Fingerprint.digest();
            byte[] buffer = new byte[1 << 16];
            for (int read; (read = in.read(buffer)) > 0;) {
                digest.update(buffer, 0, read);
            }
            return "sha256:" + Fingerprint.finish(digest);
        }
    }
}
