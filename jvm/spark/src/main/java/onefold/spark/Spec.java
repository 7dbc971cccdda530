package onefold.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.Base64;
import java.util.TreeMap;
import java.util.UUID;
import onefold.incremental.memo.JobKey;
import onefold.incremental.memo.Memo;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What all tasks of one incremental operation know.
 *
 * @param id names the operation in this application
 * @param memo the folder of the memo, or null
 * @param parts what the results depend on besides the bytes and records of a split
 * @param isTrusting whether reading an entry runs code that the entry can choose
 */
record Spec(String id, String memo, TreeMap<String, String> parts, boolean isTrusting) implements Serializable {
    /** The kind of the entries' payload. */
    static final int KIND = 2;

    /** Of the payload, which {@link Frames} writes. */
    private static final String FORMAT = "spark 1";

    private static final String PROPERTY = "onefold.spark.spec";

    static Spec of(String memo, TreeMap<String, String> parts, boolean isTrusting) {
        return new Spec(UUID.randomUUID().toString(), memo, parts, isTrusting);
    }

    /** The key of results of splits with these records. */
    JobKey key(String records) {
        TreeMap<String, String> all = new TreeMap<>(parts);
        all.put("format", FORMAT);
        all.put("records", records);
        return JobKey.of(all);
    }

    Memo open(Configuration conf) throws IOException {
        Memo opened = Memo.at(conf, new Path(memo));
        if (isTrusting) {
            OwnFolder.ensure(conf, opened.folder());
        }
        return opened;
    }

    void set(Configuration conf) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(this);
        }
        conf.set(PROPERTY, Base64.getEncoder().encodeToString(bytes.toByteArray()));
    }

    static Spec get(Configuration conf) throws IOException {
        byte[] bytes = Base64.getDecoder().decode(conf.get(PROPERTY));
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
            @Override
            protected Class<?> resolveClass(java.io.ObjectStreamClass wanted)
                    throws IOException, ClassNotFoundException {
                // the default would ask the class loader of Spark, which does not know this jar
                return Class.forName(wanted.getName(), false, Spec.class.getClassLoader());
            }
        }) {
            return (Spec) in.readObject();
        } catch (ClassNotFoundException e) {
            throw new IOException("a class of onefold-spark is missing", e);
        }
    }
}
