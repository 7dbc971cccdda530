package onefold.incremental;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.CodeSource;

/** The release of Onefold that these classes belong to. Tasks run only by the release that planned them. */
public final class Release {
    /** As in {@code 1.2.3}. */
    public static final String VERSION = read();

    private Release() {
    }

    private static String read() {
        try (InputStream in = Release.class.getResourceAsStream("release")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Begins what a task is sent, so that {@link #ensureSame} reads it before anything of another form. */
    public static void write(DataOutput out) throws IOException {
        out.writeUTF(VERSION);
    }

    /** Fails unless the release that wrote {@code in} is this one. */
    public static void ensureSame(DataInput in) throws IOException {
        String planned = in.readUTF();
        if (!planned.equals(VERSION)) {
            throw new Refused("the job was planned by onefold " + planned + ", and its task runs onefold " + VERSION
                + " from " + place(Release.class) + "; remove that jar from the task's class path, or run the job with "
                + VERSION);
        }
    }

    /** The jar or folder that a class comes from. */
    private static String place(Class<?> type) {
        CodeSource source = type.getProtectionDomain().getCodeSource();
        return source == null || source.getLocation() == null ? "an unknown place" : source.getLocation().toString();
    }
}
