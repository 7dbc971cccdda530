package onefold.incremental.memo;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import onefold.incremental.split.Fingerprint;

/**
 * What the results of a job depend on besides the bytes of a split, as named parts with their digests.
 *
 * <p>The key is the SHA-256 digest of all parts, so equal keys mean equal parts.
 */
public final class JobKey {
    private final SortedMap<String, String> parts;
    private final String id;

    private JobKey(SortedMap<String, String> parts, String id) {
        this.parts = parts;
        this.id = id;
    }

    private static String id(SortedMap<String, String> parts) {
        MessageDigest digest = Fingerprint.digest();
        digest.update("onefold job key 1".getBytes(StandardCharsets.US_ASCII));
        parts.forEach((name, value) -> {
            update(digest, name);
            update(digest, value);
        });
        return Fingerprint.finish(digest).toString();
    }

    private static void update(MessageDigest digest, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        digest.update(java.nio.ByteBuffer.allocate(4).putInt(bytes.length).array());
        digest.update(bytes);
    }

    /** A key of these parts. */
    public static JobKey of(Map<String, String> parts) {
        TreeMap<String, String> sorted = new TreeMap<>(parts);
        return new JobKey(sorted, id(sorted));
    }

    /** The key of this {@link #id}, without its parts: what a task needs. */
    public static JobKey withId(String id) {
        if (Fingerprint.fromHex(id) == null) {
            throw new IllegalArgumentException("job key '" + id + "', expected 64 hex digits");
        }
        return new JobKey(new TreeMap<>(), id);
    }

    /** 64 hex digits. */
    public String id() {
        return id;
    }

    /** Name to digest or value. */
    public SortedMap<String, String> parts() {
        return parts;
    }

    /** Collects parts. */
    public static final class Builder {
        private final SortedMap<String, String> parts = new TreeMap<>();

        /** A part whose value may be shown. */
        public Builder text(String name, String value) {
            parts.put(name, value);
            return this;
        }

        /** A part that is told by the digest of its bytes. */
        public Builder bytes(String name, byte[] value) {
            MessageDigest digest = Fingerprint.digest();
            digest.update(value);
            return text(name, "sha256:" + Fingerprint.finish(digest));
        }

        public JobKey build() {
            return JobKey.of(parts);
        }
    }
}
