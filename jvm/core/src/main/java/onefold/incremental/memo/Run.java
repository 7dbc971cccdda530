package onefold.incremental.memo;

import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.UUID;
import onefold.incremental.files.NewFile;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * What one run of a job found in the memo.
 *
 * @param time when it was planned, in ms since 1970
 * @param job the job's name, as its users write it
 * @param hits splits whose results were replayed, and {@code hitBytes} their bytes
 * @param misses splits that were computed, and {@code missBytes} their bytes
 */
public record Run(long time, String job, JobKey key, long hits, long hitBytes, long misses, long missBytes) {
    /** The longest record in bytes. */
    public static final int MAX_LENGTH = 4 << 20;

    private static final String PART = "part.";

    /** The part of a key that says how many parts a reduce tree has. */
    public static final String TREE_PARTS = "parts";
    /** More parts than any job has. */
    private static final int MOST_TREE_PARTS = 1 << 16;

    /** How many parts the job's reduce tree has, or 0 if it has none. */
    public int treeParts() {
        String parts = key.parts().getOrDefault(TREE_PARTS, "0");
        try {
            return Math.min(Integer.parseInt(parts), MOST_TREE_PARTS);
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    void write(FileSystem fs, Path folder, Path temporary) throws IOException {
        Properties properties = new Properties();
        properties.setProperty("time", Long.toString(time));
        properties.setProperty("job", job);
        properties.setProperty("hits", Long.toString(hits));
        properties.setProperty("hit-bytes", Long.toString(hitBytes));
        properties.setProperty("misses", Long.toString(misses));
        properties.setProperty("miss-bytes", Long.toString(missBytes));
        key.parts().forEach((name, value) -> properties.setProperty(PART + name, value));
        StringWriter text = new StringWriter();
        properties.store(text, null);
        Path path = new Path(folder, time + "-" + UUID.randomUUID());
        try (NewFile file = NewFile.create(fs, path, temporary)) {
            file.out().write(text.toString().getBytes(StandardCharsets.UTF_8));
            file.commit();
        }
    }

    static Optional<Run> read(byte[] bytes) {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(new String(bytes, StandardCharsets.UTF_8)));
            TreeMap<String, String> parts = new TreeMap<>();
            for (String name : properties.stringPropertyNames()) {
                if (name.startsWith(PART)) {
                    parts.put(name.substring(PART.length()), properties.getProperty(name));
                }
            }
            return Optional.of(new Run(number(properties, "time"), properties.getProperty("job", ""),
                JobKey.of(parts), number(properties, "hits"), number(properties, "hit-bytes"),
                number(properties, "misses"), number(properties, "miss-bytes")));
        } catch (IOException | IllegalArgumentException e) {
            return Optional.empty();
        }
    }

    private static long number(Properties properties, String name) {
        return Long.parseLong(properties.getProperty(name, ""));
    }
}
