package onefold.incremental.mapreduce;

import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.util.Progress;

/** Serialized keys and values in memory, to be sorted. */
final class Pairs {
    /** So much is held before it is combined. */
    private static final int FULL_BYTES = 32 << 20;
    private static final int FULL_PAIRS = 1 << 20;

    private byte[] bytes = new byte[1 << 16];
    /** Where each key begins, each value begins, and each value ends. */
    private int[] bounds = new int[3 << 10];
    private int count;
    private int end;

    boolean isEmpty() {
        return count == 0;
    }

    boolean isFull() {
        return end >= FULL_BYTES || count >= FULL_PAIRS;
    }

    void add(byte[] key, int keyLength, byte[] value, int valueLength) throws IOException {
        long needed = (long) end + keyLength + valueLength;
        if (needed > Integer.MAX_VALUE - 8) {
            throw new IOException("a key and value of " + (keyLength + (long) valueLength) + " bytes, too long to sort");
        }
        if (needed > bytes.length) {
            bytes = Arrays.copyOf(bytes, (int) Math.min(Integer.MAX_VALUE - 8, Math.max(needed, 2L * bytes.length)));
        }
        if (3 * count + 3 > bounds.length) {
            bounds = Arrays.copyOf(bounds, 2 * bounds.length);
        }
        System.arraycopy(key, 0, bytes, end, keyLength);
        System.arraycopy(value, 0, bytes, end + keyLength, valueLength);
        bounds[3 * count] = end;
        bounds[3 * count + 1] = end + keyLength;
        bounds[3 * count + 2] = (int) needed;
        end = (int) needed;
        count++;
    }

    void clear() {
        count = 0;
        end = 0;
    }

    /** The pairs in the order of {@code comparator}; equal keys keep the order in which they were added. */
    RawKeyValueIterator sorted(RawComparator<?> comparator) {
        Integer[] order = new Integer[count];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (a, b) -> comparator.compare(bytes, bounds[3 * a], bounds[3 * a + 1] - bounds[3 * a],
            bytes, bounds[3 * b], bounds[3 * b + 1] - bounds[3 * b]));
        return new Iterator(order);
    }

    private final class Iterator implements RawKeyValueIterator {
        private final Integer[] order;
        private final DataInputBuffer key = new DataInputBuffer();
        private final DataInputBuffer value = new DataInputBuffer();
        private final Progress progress = new Progress();
        private int next;

        Iterator(Integer[] order) {
            this.order = order;
        }

        @Override
        public boolean next() {
            if (next == order.length) {
                return false;
            }
            int at = 3 * order[next++];
            key.reset(bytes, bounds[at], bounds[at + 1] - bounds[at]);
            value.reset(bytes, bounds[at + 1], bounds[at + 2] - bounds[at + 1]);
            return true;
        }

        @Override
        public DataInputBuffer getKey() {
            return key;
        }

        @Override
        public DataInputBuffer getValue() {
            return value;
        }

        @Override
        public Progress getProgress() {
            return progress;
        }

        @Override
        public void close() {
        }
    }
}
