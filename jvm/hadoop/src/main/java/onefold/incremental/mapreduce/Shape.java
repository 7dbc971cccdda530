package onefold.incremental.mapreduce;

import java.io.IOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import onefold.incremental.Refused;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import onefold.incremental.split.Records;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapRunner;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FixedLengthInputFormat;
import org.apache.hadoop.mapreduce.lib.input.KeyValueTextInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/** How a job reads and maps: by which of Hadoop's APIs, and by which of the known input formats. */
record Shape(boolean isNewApi, Input input) {
    /** The input formats that are known, and what their records are. */
    enum Input { TEXT, KEY_VALUE, FIXED_LENGTH }

    static final String MEMO = "onefold.memo.folder";
    static final String KEY = "onefold.memo.key";
    static final String INPUT = "onefold.memo.input";
    static final String MAPPER = "onefold.memo.mapper";

    private static final String MAX_LINE = "mapreduce.input.linerecordreader.line.maxlength";
    private static final String OLD_INPUT = "mapred.input.format.class";
    private static final String OLD_RUNNER = "mapred.map.runner.class";
    private static final String OLD_OUTPUTS = "mapred.multipleoutputs.namedOutputs";
    private static final String NEW_OUTPUTS = "mapreduce.multipleoutputs";
    private static final String LIBRARIES = "tmpjars";
    private static final String TOKENS_FOR = "mapreduce.job.hdfs-servers";

    /** The shape of a job that can use a memo; refuses others with the reason. */
    static Shape of(JobConf job) throws Refused {
        if (job.getNumReduceTasks() == 0) {
            throw new Refused("it has no reduce, so its output files are those of its map tasks");
        }
        if (job.get(MAX_LINE) != null) {
            throw new Refused(MAX_LINE + " is set, which drops records that are longer");
        }
        if (job.get(FileInputFormat.PATHFILTER_CLASS) != null) {
            throw new Refused("it has a filter of input paths");
        }
        if (job.get(NEW_OUTPUTS) != null || job.get(OLD_OUTPUTS) != null) {
            throw new Refused("it declares named outputs, which its map tasks may write");
        }
        return job.getUseNewMapper() ? newApi(job) : oldApi(job);
    }

    private static Shape newApi(JobConf job) throws Refused {
        Class<?> format = job.getClass(MRJobConfig.INPUT_FORMAT_CLASS_ATTR, TextInputFormat.class);
        return new Shape(true, input(format, TextInputFormat.class, KeyValueTextInputFormat.class,
            FixedLengthInputFormat.class));
    }

    private static Shape oldApi(JobConf job) throws Refused {
        Class<?> format = job.getClass(OLD_INPUT, org.apache.hadoop.mapred.TextInputFormat.class);
        Input input = input(format, org.apache.hadoop.mapred.TextInputFormat.class,
            org.apache.hadoop.mapred.KeyValueTextInputFormat.class,
            org.apache.hadoop.mapred.FixedLengthInputFormat.class);
        if (job.getMapRunnerClass() != MapRunner.class) {
            throw new Refused("it runs its mapper by " + job.getMapRunnerClass().getName()
                + ", and only Hadoop's MapRunner is known");
        }
        return new Shape(false, input);
    }

    /** Which of the formats {@code known}, in the order of {@link Input}, {@code format} is. */
    private static Input input(Class<?> format, Class<?>... known) throws Refused {
        for (Input input : Input.values()) {
            if (format == known[input.ordinal()]) {
                return input;
            }
        }
        throw new Refused("its input format is " + format.getName()
            + ", and only TextInputFormat, KeyValueTextInputFormat and FixedLengthInputFormat are known");
    }

    /** How the job's input format tells records apart. */
    Records records(JobConf job) throws Refused {
        if (input == Input.FIXED_LENGTH) {
            return Records.ofLength(FixedLengthInputFormat.getRecordLength(job));
        }
        String delimiter = job.get("textinputformat.record.delimiter");
        return delimiter == null ? Records.LINES : Records.delimitedBy(delimiter.getBytes(StandardCharsets.UTF_8));
    }

    /** Wraps the job's input format and mapper; refuses before it changes anything. */
    void rewrite(JobConf job, Memo memo, JobKey key) throws IOException {
        boolean isLocal = job.get(MRConfig.FRAMEWORK_NAME, MRConfig.LOCAL_FRAMEWORK_NAME)
            .equals(MRConfig.LOCAL_FRAMEWORK_NAME);
        if (!isLocal) {
            append(job, LIBRARIES, ownJar());
            // so that tasks may use the memo's file system where it asks for Kerberos
            append(job, TOKENS_FOR, memo.folder().toString());
        }
        job.set(MEMO, memo.folder().toString());
        job.set(KEY, key.id());
        job.setEnum(INPUT, input);
        if (isNewApi) {
            job.set(MAPPER, job.get(MRJobConfig.MAP_CLASS_ATTR, Mapper.class.getName()));
            job.setClass(MRJobConfig.MAP_CLASS_ATTR, MemoMapper.class, Mapper.class);
            job.setClass(MRJobConfig.INPUT_FORMAT_CLASS_ATTR, MemoInputFormat.class, InputFormat.class);
        } else {
            job.setMapRunnerClass(OldMemoRunner.class);
            job.setInputFormat(OldMemoInputFormat.class);
        }
    }

    private static void append(JobConf job, String name, String value) {
        String before = job.get(name, "");
        job.set(name, before.isEmpty() ? value : before + "," + value);
    }

    /** The jar of this class, which tasks need. */
    private static String ownJar() throws IOException {
        String name = Shape.class.getName().replace('.', '/') + ".class";
        // hadoop jar unpacks it too, and has both on the class path
        for (URL url : Collections.list(Shape.class.getClassLoader().getResources(name))) {
            if (url.getProtocol().equals("jar")) {
                return url.getPath().substring(0, url.getPath().indexOf("!/"));
            }
        }
        throw new Refused("tasks need onefold-hadoop.jar, and these classes come from no jar");
    }
}
