package onefold.incremental.split;

/**
 * Finds the ends of splits in bytes that come piece by piece.
 *
 * <p>A split ends at the first end of a record at or after a cut-point of the rule {@code gear} (see
 * {@link Gear}), and the search for cut-points starts again there. So a split consists of whole
 * records, and its end depends on nothing but the bytes since its beginning: neither on the bytes
 * before it, nor on how the bytes were fed. The last split takes what is left.
 *
 * <p>After a change, splits are the same again from the first common end on. With {@code min} a
 * quarter of the mean, a position behind the change that qualifies as a cut-point is a common one
 * with a probability of at least e^(−1/3), about 0.7, unless max or the length of records gets in
 * the way. So in the mean fewer than two splits behind the changed ones are new.
 */
public final class Splitter {
    /** The rule's number in crates/cdc, which manifests name. */
    public static final int RULE = 2;

    private final Cutter cutter;
    private final Records.Finder records;
    /** A cut-point was found, and the end of its record is being looked for. */
    private boolean isCut;

    public Splitter(SplitSizes sizes, Records records) {
        cutter = Cutter.of(sizes, 0);
        this.records = records.finder();
    }

    /**
     * Takes {@code bytes[from..to]}, which continue the current split.
     *
     * @return the index just after the split's last byte, or −1 if the split goes on; the next call
     *     begins with the byte at that index
     */
    public int next(byte[] bytes, int from, int to) {
        int at = from;
        if (!isCut) {
            int cut = cutter.scan(bytes, from, to);
            at = cut < 0 ? to : cut;
            records.pass(bytes, from, at);
            if (cut < 0) {
                return -1;
            }
            isCut = true;
            if (records.atEnd()) {
                restart();
                return at;
            }
        }
        int end = records.find(bytes, at, to);
        if (end >= 0) {
            restart();
        }
        return end;
    }

    private void restart() {
        cutter.restart();
        records.restart();
        isCut = false;
    }
}
