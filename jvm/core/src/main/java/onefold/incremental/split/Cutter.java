package onefold.incremental.split;

/** Finds the cut-points of the rule {@code gear} (see {@link Gear}) in bytes that come piece by piece. */
interface Cutter {
    /** By the native library if there is one for this machine, and else by {@link Gear}. */
    static Cutter of(SplitSizes sizes, long seed) {
        return NativeLibrary.IS_LOADED ? new NativeGear(sizes, seed) : new Gear(sizes, seed);
    }

    /** Begins a chunk with the next byte. */
    void restart();

    /**
     * Looks at {@code bytes[from..to]}, which continue the chunk. After a cut-point the caller must
     * {@link #restart}.
     *
     * @return the index just after the chunk's last byte, or −1 if the chunk goes on
     */
    int scan(byte[] bytes, int from, int to);
}
