package onefold.incremental.input;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import onefold.incremental.Inputs;
import onefold.incremental.Refused;
import onefold.incremental.layout.Put;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FixedLengthInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The records of splits by content are those of Hadoop's own text input. */
class SplitTextInputFormatTest {
    private static final SplitSizes SIZES = new SplitSizes(256, 1024, 4096);

    @TempDir
    private java.nio.file.Path folder;

    private Path at(String name) {
        return new Path(folder.resolve(name).toUri());
    }

    private static List<String> read(InputFormat<LongWritable, Text> format, Job job) throws Exception {
        List<String> records = new ArrayList<>();
        for (InputSplit split : format.getSplits(job)) {
            InputSplit sent = split instanceof ContentSplit ? sent((Writable) split, new ContentSplit()) : split;
            TaskAttemptContextImpl task = new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
            try (RecordReader<LongWritable, Text> reader = format.createRecordReader(sent, task)) {
                reader.initialize(sent, task);
                while (reader.nextKeyValue()) {
                    records.add(reader.getCurrentKey() + " " + reader.getCurrentValue());
                }
            }
        }
        return records;
    }

    /** What arrives of a split in a task. */
    private static <T extends Writable> T sent(Writable split, T arrived) throws IOException {
        DataOutputBuffer out = new DataOutputBuffer();
        split.write(out);
        DataInputBuffer in = new DataInputBuffer();
        in.reset(out.getData(), out.getLength());
        arrived.readFields(in);
        assertEquals(in.getLength(), in.getPosition());
        return arrived;
    }

    private static List<String> readOld(JobConf job) throws IOException {
        OldSplitTextInputFormat format = new OldSplitTextInputFormat();
        List<String> records = new ArrayList<>();
        for (org.apache.hadoop.mapred.InputSplit split : format.getSplits(job, 1)) {
            OldSplitTextInputFormat.Split sent = sent(split, new OldSplitTextInputFormat.Split());
            try (org.apache.hadoop.mapred.RecordReader<LongWritable, Text> reader =
                    format.getRecordReader(sent, job, Reporter.NULL)) {
                LongWritable key = reader.createKey();
                Text value = reader.createValue();
                while (reader.next(key, value)) {
                    records.add(key + " " + value);
                }
            }
        }
        return records;
    }

    @Test
    void recordsAndKeysAreThoseOfTextInputFormat() throws Exception {
        Random random = new Random(1);
        for (int round = 0; round < 12; round++) {
            String text = new String(Inputs.lines(round, 20_000), StandardCharsets.UTF_8);
            String delimiter = round % 3 == 2 ? "word1" : null;
            text = round % 4 == 1 ? text.replace("\n", "\r\n") : text;
            text = round % 4 == 2 ? "\ufeff" + text : text;
            text = text.substring(0, text.length() - random.nextInt(4)) + (round == 5 ? "\n\n\n" : "");
            byte[] data = text.getBytes(StandardCharsets.UTF_8);
            Job job = Job.getInstance();
            if (delimiter != null) {
                job.getConfiguration().set("textinputformat.record.delimiter", delimiter);
            }
            Records records = delimiter == null ? Records.LINES : Records.parse("delimiter:" + delimiter);
            String name = "in" + round;
            new Put(job.getConfiguration(), SIZES, records, false).blocks(new ByteArrayInputStream(data), "d", at(name));
            FileInputFormat.setInputPaths(job, at(name));
            List<String> expected = read(new TextInputFormat(), job);
            assertTrue(expected.size() > 50);
            assertEquals(expected, read(new SplitTextInputFormat(), job), name);
            JobConf old = new JobConf();
            org.apache.hadoop.mapred.FileInputFormat.setInputPaths(old, at(name));
            assertEquals(expected, readOld(old), name);
        }
    }

    @Test
    void foldersPatternsAndFilesWithoutManifestsAreInput() throws Exception {
        byte[] data = Inputs.lines(1, 9000);
        Files.createDirectories(folder.resolve("data/_hidden"));
        Files.write(folder.resolve("data/plain"), data);
        Files.write(folder.resolve("data/.secret"), data);
        Files.write(folder.resolve("source"), data);
        Job job = Job.getInstance();
        new Put(job.getConfiguration(), SIZES, Records.LINES, false).shared(at("source"), at("data/shared"));
        FileInputFormat.setInputPaths(job, at("source"));
        int once = read(new TextInputFormat(), job).size();
        for (String pattern : new String[] {"data", "data*", "data/shared,data/plain"}) {
            List<Path> paths = new ArrayList<>();
            for (String path : pattern.split(",")) {
                paths.add(new Path(at(""), path));
            }
            FileInputFormat.setInputPaths(job, paths.toArray(Path[]::new));
            assertEquals(2 * once, read(new SplitTextInputFormat(), job).size(), pattern);
        }
    }

    @Test
    void aFileThatHadoopWouldDecompressIsRefused() throws Exception {
        Files.writeString(folder.resolve("part.deflate"), "bytes of no magic\n");
        Path path = new Path(folder.resolve("part.deflate").toUri());
        String message = assertThrows(Refused.class, () -> new InputFiles(new JobConf(), false).version(path))
            .getMessage();
        assertTrue(message.startsWith(path + " is compressed, as its name says"), message);
    }

    @Test
    void inputThatIsMissingOrNestedIsRefused() throws Exception {
        Job job = Job.getInstance();
        FileInputFormat.setInputPaths(job, at("missing"));
        assertThrows(FileNotFoundException.class, () -> new SplitTextInputFormat().getSplits(job));
        Files.createDirectories(folder.resolve("outer/inner"));
        FileInputFormat.setInputPaths(job, at("outer"));
        assertThrows(Refused.class, () -> new SplitTextInputFormat().getSplits(job));
    }

    @Test
    void recordsOfOneLengthAreThoseOfFixedLengthInputFormat() throws Exception {
        byte[] data = Inputs.splitMix(1, 7 * 3000, 255);
        // what would be a byte order mark of text
        System.arraycopy("\ufeff".getBytes(StandardCharsets.UTF_8), 0, data, 0, 3);
        Job job = Job.getInstance();
        new Put(job.getConfiguration(), SIZES, Records.ofLength(7), false)
            .blocks(new ByteArrayInputStream(data), "d", at("fixed"));
        FileInputFormat.setInputPaths(job, at("fixed"));
        FixedLengthInputFormat.setRecordLength(job.getConfiguration(), 7);
        List<String> expected = new ArrayList<>();
        InputFormat<LongWritable, BytesWritable> hadoops = new FixedLengthInputFormat();
        for (InputSplit split : hadoops.getSplits(job)) {
            TaskAttemptContextImpl task = new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
            try (RecordReader<LongWritable, BytesWritable> reader = hadoops.createRecordReader(split, task)) {
                reader.initialize(split, task);
                while (reader.nextKeyValue()) {
                    expected.add(reader.getCurrentKey() + " " + new Text(reader.getCurrentValue().copyBytes()));
                }
            }
        }
        assertEquals(3000, expected.size());
        assertEquals(expected, read(new SplitTextInputFormat(), job));
        JobConf old = new JobConf();
        org.apache.hadoop.mapred.FileInputFormat.setInputPaths(old, at("fixed"));
        assertEquals(expected, readOld(old));
    }
}
