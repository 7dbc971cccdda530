package onefold.incremental.split;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/** The search of {@link Gear} by crates/cdc, over a direct buffer. Needs {@link NativeLibrary}. */
final class NativeGear implements Cutter {
    private static final Cleaner CLEANER = Cleaner.create();
    /** Bytes searched by one call. */
    private static final int PIECE = 256 << 10;

    private final ByteBuffer piece = ByteBuffer.allocateDirect(PIECE);
    /** The address of the search, which is freed when this object is no longer reachable. */
    private final long search;

    NativeGear(SplitSizes sizes, long seed) {
        long opened = open(seed, sizes.min(), sizes.avg(), sizes.max());
        search = opened;
        CLEANER.register(this, () -> close(opened));
    }

    @Override
    public void restart() {
        restart(search);
        Reference.reachabilityFence(this);
    }

    @Override
    public int scan(byte[] bytes, int from, int to) {
        for (int at = from; at < to; at += PIECE) {
            int length = Math.min(to - at, PIECE);
            piece.put(0, bytes, at, length);
            int cut = scan(search, piece, length);
            if (cut >= 0) {
                return at + cut;
            }
        }
        Reference.reachabilityFence(this);
        return -1;
    }

    private static native long open(long seed, long min, long avg, long max);

    private static native void close(long search);

    private static native void restart(long search);

    private static native int scan(long search, ByteBuffer bytes, int length);
}
