package onefold.incremental.split;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;

/** The identity of a split: the SHA-256 digest of its bytes. */
public final class Fingerprint implements Comparable<Fingerprint> {
    /** Bytes of a fingerprint. */
    public static final int LENGTH = 32;

    /** The algorithm's number in crates/fingerprint, which manifests name. */
    public static final int ALGORITHM = 2;

    private final byte[] bytes;

    private Fingerprint(byte[] bytes) {
        this.bytes = bytes;
    }

    /** These 32 bytes. */
    public static Fingerprint of(byte[] bytes) {
        if (bytes.length != LENGTH) {
            throw new IllegalArgumentException("a fingerprint of " + bytes.length + " bytes, expected 32");
        }
        return new Fingerprint(bytes.clone());
    }

    /** What {@link #toString} wrote, or null if {@code hex} is something else. */
    public static Fingerprint fromHex(String hex) {
        if (hex.length() != 2 * LENGTH || !hex.equals(hex.toLowerCase(java.util.Locale.ROOT))) {
            return null;
        }
        try {
            return new Fingerprint(HexFormat.of().parseHex(hex));
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    /** A digest whose result is a fingerprint. */
    public static MessageDigest digest() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    /** The fingerprint of what {@code digest} took; the digest is as new afterwards. */
    public static Fingerprint finish(MessageDigest digest) {
        return new Fingerprint(digest.digest());
    }

    public byte[] bytes() {
        return bytes.clone();
    }

    @Override
    public int compareTo(Fingerprint other) {
        return Arrays.compareUnsigned(bytes, other.bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Fingerprint that && Arrays.equals(bytes, that.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** 64 lower-case hex digits. */
    @Override
    public String toString() {
        return HexFormat.of().formatHex(bytes);
    }
}
