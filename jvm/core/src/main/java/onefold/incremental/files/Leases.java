package onefold.incremental.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * What running programs rely on, as files in a folder.
 *
 * <p>A program takes a lease before it looks at anything, and says later what it relies on. Until
 * then it counts as relying on everything. A lease that was not renewed for {@link #LIFETIME_MS} is
 * dead, by the clock of the file system.
 */
public final class Leases {
    /** How long a lease lives after it was written, in ms: 15 minutes. */
    public static final long LIFETIME_MS = 15 * 60 * 1000;

    private static final long RENEWAL_MS = 60 * 1000;
    private static final String FIRST_LINE = "onefold lease 1";
    private static final int MAX_LENGTH = 256 << 20;

    private final FileSystem fs;
    private final Path folder;

    /** The leases in the folder {@code leases} of {@code root}. */
    public Leases(FileSystem fs, Path root) {
        this.fs = fs;
        folder = new Path(root, "leases");
    }

    /** A lease on everything, renewed until it is closed. */
    public Lease take() throws IOException {
        return new Lease();
    }

    /** What the living leases say. */
    public Living living() throws IOException {
        // a file of now tells the time by the clock that the leases have
        Path probe = new Path(folder, ".now-" + UUID.randomUUID());
        fs.create(probe, false).close();
        long now = fs.getFileStatus(probe).getModificationTime();
        fs.delete(probe, false);
        boolean onAll = false;
        List<Set<String>> named = new ArrayList<>();
        for (FileStatus status : Listing.of(fs, folder)) {
            boolean isLease = !status.getPath().getName().startsWith(".");
            if (isLease && now - status.getModificationTime() < LIFETIME_MS) {
                Optional<Set<String>> names = read(status.getPath());
                names.ifPresent(named::add);
                onAll |= names.isEmpty();
            }
        }
        return new Living(onAll, named);
    }

    /** What a lease names; nothing if that is everything, or cannot be told. */
    private Optional<Set<String>> read(Path path) throws IOException {
        byte[] bytes;
        try (FSDataInputStream in = fs.open(path)) {
            bytes = in.readNBytes(MAX_LENGTH + 1);
        } catch (FileNotFoundException e) {
            // given back just now
            return Optional.of(Set.of());
        }
        List<String> lines = new String(bytes, StandardCharsets.UTF_8).lines().toList();
        boolean isWhole = bytes.length <= MAX_LENGTH && lines.size() >= 2 && lines.get(0).equals(FIRST_LINE)
            && lines.get(lines.size() - 1).equals("end");
        return isWhole ? Optional.of(Set.copyOf(lines.subList(1, lines.size() - 1))) : Optional.empty();
    }

    /** What running programs rely on. */
    public record Living(boolean onAll, List<Set<String>> named) {
        /** Whether a running program relies on what has this name. */
        public boolean covers(String name) {
            return onAll || named.stream().anyMatch(names -> names.contains(name));
        }
    }

    /** What one program relies on. */
    public final class Lease implements AutoCloseable {
        private final Path path = new Path(folder, UUID.randomUUID().toString());
        private final Thread renewal;
        private String content = FIRST_LINE + "\n";
        private boolean isClosed;

        private Lease() throws IOException {
            write();
            renewal = new Thread(this::renew, "onefold-lease");
            renewal.setDaemon(true);
            renewal.start();
        }

        /** Relies from now on on what has these names, and on nothing else. */
        public synchronized void narrow(Set<String> names) throws IOException {
            StringBuilder text = new StringBuilder(FIRST_LINE).append('\n');
            names.forEach(name -> text.append(name).append('\n'));
            content = text.append("end\n").toString();
            write();
        }

        private synchronized void write() throws IOException {
            if (!isClosed) {
                try (OutputStream out = new CheckedOutput(fs.create(path, true), path)) {
                    out.write(content.getBytes(StandardCharsets.UTF_8));
                }
            }
        }

        private void renew() {
            while (true) {
                try {
                    Thread.sleep(RENEWAL_MS);
                    write();
                } catch (InterruptedException e) {
                    return;
                } catch (IOException e) {
                    System.err.println("onefold: cannot renew the lease " + path + ": " + e.getMessage()
                        + "; without it gc may delete what this job would have replayed, and the job computes it");
                }
            }
        }

        /** Gives the lease back. */
        @Override
        public void close() throws IOException {
            synchronized (this) {
                isClosed = true;
            }
            renewal.interrupt();
            fs.delete(path, false);
        }
    }
}
