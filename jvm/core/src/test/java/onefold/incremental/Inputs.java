package onefold.incremental;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Inputs that tests share. */
public final class Inputs {
    private Inputs() {
    }

    /** {@code length} bytes of the numbers that SplitMix64 yields from {@code seed}, each and-ed with {@code mask}. */
    public static byte[] splitMix(long seed, int length, int mask) {
        byte[] bytes = new byte[length];
        long state = seed;
        long number = 0;
        for (int i = 0; i < length; i++) {
            if (i % 8 == 0) {
                state += 0x9e3779b97f4a7c15L;
                long z = (state ^ (state >>> 30)) * 0xbf58476d1ce4e5b9L;
                z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
                number = z ^ (z >>> 31);
            }
            bytes[i] = (byte) (number >>> (8 * (i % 8)) & mask);
        }
        return bytes;
    }

    /** Lines of words, some of them empty; each ends with LF. */
    public static byte[] lines(long seed, int length) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            int words = random.nextInt(12);
            for (int i = 0; i < words; i++) {
                text.append(i == 0 ? "" : " ").append("word").append(random.nextInt(2000));
            }
            text.append('\n');
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    public static byte[] concat(byte[]... parts) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            bytes.writeBytes(part);
        }
        return bytes.toByteArray();
    }
}
