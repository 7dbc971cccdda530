package onefold.incremental.mapreduce;

import java.io.IOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.JobClient;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapReduceBase;
import org.apache.hadoop.mapred.OutputCollector;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.FixedLengthInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;

/** Programs that the tests run: words {@code MODE INPUT OUTPUT}. */
public final class Jobs {
    private Jobs() {
    }

    /** Counts words, and with some modes looks at what it should not. */
    public static final class Words extends Mapper<LongWritable, Text, Text, IntWritable> {
        /** A counter of its own. */
        enum Seen { LINES }

        private String mode;

        @Override
        protected void setup(Context context) {
            mode = context.getConfiguration().get("test.mode");
            if (mode.equals("property")) {
                context.getConfiguration().get("mapreduce.task.attempt.id");
            }
        }

        @Override
        protected void map(LongWritable key, Text value, Context context) throws IOException, InterruptedException {
            context.getCounter(Seen.LINES).increment(1);
            context.getCounter("mine", "bytes").increment(value.getLength());
            String prefix = switch (mode) {
                case "offset" -> key.get() < 0 ? "negative" : "";
                case "path" -> ((FileSplit) context.getInputSplit()).getPath().getName().isEmpty() ? "x" : "";
                case "attempt" -> context.getTaskAttemptID().getId() < 0 ? "x" : "";
                case "random" -> Long.toString(System.nanoTime());
                default -> "";
            };
            for (String word : value.toString().split(" ")) {
                context.write(new Text(prefix + word), new IntWritable(1));
            }
        }
    }

    /** Counts records of one length. */
    public static final class Cells extends Mapper<LongWritable, BytesWritable, Text, IntWritable> {
        @Override
        protected void map(LongWritable key, BytesWritable value, Context context)
                throws IOException, InterruptedException {
            context.write(new Text(value.copyBytes()), new IntWritable(1));
        }
    }

    /** Adds up. */
    public static final class Sum extends Reducer<Text, IntWritable, Text, IntWritable> {
        @Override
        protected void reduce(Text key, Iterable<IntWritable> values, Context context)
                throws IOException, InterruptedException {
            int sum = 0;
            for (IntWritable value : values) {
                sum += value.get();
            }
            context.write(key, new IntWritable(sum));
        }
    }

    /** Counts words by the old API. */
    public static final class OldWords extends MapReduceBase
            implements org.apache.hadoop.mapred.Mapper<LongWritable, Writable, Text, IntWritable>,
            org.apache.hadoop.mapred.Reducer<Text, IntWritable, Text, IntWritable> {
        private boolean looks;

        @Override
        public void configure(JobConf job) {
            looks = job.get("test.mode").equals("old-offset");
        }

        @Override
        public void map(LongWritable key, Writable value, OutputCollector<Text, IntWritable> output, Reporter reporter)
                throws IOException {
            reporter.incrCounter("mine", "lines", looks && key.get() < 0 ? 2 : 1);
            for (String word : value.toString().split(" ")) {
                output.collect(new Text(word), new IntWritable(1));
            }
        }

        @Override
        public void reduce(Text key, Iterator<IntWritable> values, OutputCollector<Text, IntWritable> output,
                Reporter reporter) throws IOException {
            int sum = 0;
            while (values.hasNext()) {
                sum += values.next().get();
            }
            output.collect(key, new IntWritable(sum));
        }
    }

    public static void main(String[] words) throws Exception {
        String mode = words[0];
        if (mode.startsWith("old")) {
            old(words);
            return;
        }
        Configuration conf = new Configuration();
        conf.set("test.mode", mode);
        Job job = Job.getInstance(conf, "words");
        job.setJarByClass(Jobs.class);
        if (!mode.equals("identity")) {
            job.setMapperClass(Words.class);
            job.setReducerClass(Sum.class);
            job.setOutputKeyClass(Text.class);
            job.setOutputValueClass(IntWritable.class);
        } else {
            job.setOutputKeyClass(LongWritable.class);
            job.setOutputValueClass(Text.class);
        }
        if (mode.equals("fixed")) {
            job.setMapperClass(Cells.class);
            job.setInputFormatClass(FixedLengthInputFormat.class);
            FixedLengthInputFormat.setRecordLength(job.getConfiguration(), 4);
        }
        if (mode.equals("combined")) {
            job.setCombinerClass(Sum.class);
        }
        if (mode.equals("map-only")) {
            job.setNumReduceTasks(0);
        } else {
            job.setNumReduceTasks(2);
        }
        if (words.length > 3) {
            job.addCacheFile(new Path(words[3]).toUri());
        }
        FileInputFormat.addInputPath(job, new Path(words[1]));
        FileOutputFormat.setOutputPath(job, new Path(words[2]));
        System.exit(job.waitForCompletion(true) ? 0 : 1);
    }

    private static void old(String[] words) throws IOException {
        JobConf job = new JobConf(Jobs.class);
        job.setJobName("old words");
        job.set("test.mode", words[0]);
        // a client that connects before the job is complete
        new JobClient(job).close();
        job.setMapperClass(OldWords.class);
        if (words[0].equals("old-fixed")) {
            job.setInputFormat(org.apache.hadoop.mapred.FixedLengthInputFormat.class);
            org.apache.hadoop.mapred.FixedLengthInputFormat.setRecordLength(job, 4);
        }
        if (words[0].equals("old-combined")) {
            job.setCombinerClass(OldWords.class);
        }
        job.setReducerClass(OldWords.class);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(IntWritable.class);
        org.apache.hadoop.mapred.FileInputFormat.addInputPath(job, new Path(words[1]));
        org.apache.hadoop.mapred.FileOutputFormat.setOutputPath(job, new Path(words[2]));
        JobClient.runJob(job);
    }
}
