package onefold.incremental.mapreduce;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import onefold.incremental.split.Fingerprint;

/** A digest of pairs in any order: the sum of the digests of each. */
final class Bag {
    private final MessageDigest digest = Fingerprint.digest();
    private final long[] sum = new long[4];
    private long count;

    void add(byte[] key, int keyLength, byte[] value, int valueLength) {
        digest.update(ByteBuffer.allocate(4).putInt(keyLength).array());
        digest.update(key, 0, keyLength);
        digest.update(value, 0, valueLength);
        ByteBuffer one = ByteBuffer.wrap(digest.digest());
        for (int i = 0; i < sum.length; i++) {
            sum[i] += one.getLong();
        }
        count++;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Bag that && count == that.count && java.util.Arrays.equals(sum, that.sum);
    }

    @Override
    public int hashCode() {
        return java.util.Arrays.hashCode(sum);
    }

    @Override
    public String toString() {
        return count + " pairs with digest " + Long.toHexString(sum[0]);
    }
}
