package onefold.incremental.split;

import java.math.BigInteger;

/**
 * The search for cut-points by the rule {@code gear} of the crate onefold-cdc, byte by byte.
 *
 * <p>Rule: h = 2h + table[b] mod 2^64 for each byte b, so that h depends on the last 64 bytes. The
 * cut-point is the first position from min on where h &lt; ⌊2^64 / (avg − min + 1)⌋ as an unsigned
 * number, or max. The table is the first 256 numbers that SplitMix64 yields from the seed.
 */
final class Gear implements Cutter {
    /** Bytes that a hash depends on. */
    private static final int WINDOW = 64;

    private final SplitSizes sizes;
    private final long[] table = new long[256];
    /** The largest hash that is a cut-point, with its sign bit flipped. */
    private final long limit;
    private long length;
    private long hash;

    Gear(SplitSizes sizes, long seed) {
        this.sizes = sizes;
        BigInteger spread = BigInteger.valueOf(sizes.avg() - sizes.min() + 1);
        BigInteger threshold = BigInteger.ONE.shiftLeft(64).divide(spread);
        limit = threshold.subtract(BigInteger.ONE).longValue() ^ Long.MIN_VALUE;
        long state = seed;
        for (int i = 0; i < table.length; i++) {
            state += 0x9e3779b97f4a7c15L;
            long z = (state ^ (state >>> 30)) * 0xbf58476d1ce4e5b9L;
            z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
            table[i] = z ^ (z >>> 31);
        }
    }

    @Override
    public void restart() {
        length = 0;
        hash = 0;
    }

    @Override
    public int scan(byte[] bytes, int from, int to) {
        int at = from;
        // no hash that counts depends on these
        long skipped = Math.min(to - at, Math.max(0, sizes.min() - WINDOW - length));
        at += (int) skipped;
        length += skipped;
        long h = hash;
        int warm = (int) Math.min(to - at, Math.max(0, sizes.min() - 1 - length));
        for (int end = at + warm; at < end; at++) {
            h = (h << 1) + table[bytes[at] & 0xff];
        }
        length += warm;
        int stop = (int) Math.min(to, at + (sizes.max() - length));
        for (int i = at; i < stop; i++) {
            h = (h << 1) + table[bytes[i] & 0xff];
            if ((h ^ Long.MIN_VALUE) <= limit) {
                return i + 1;
            }
        }
        length += stop - at;
        hash = h;
        return length == sizes.max() ? stop : -1;
    }
}
