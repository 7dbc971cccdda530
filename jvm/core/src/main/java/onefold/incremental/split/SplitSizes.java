package onefold.incremental.split;

import onefold.incremental.Refused;

/**
 * Bounds and mean of split lengths in bytes: 1 ≤ min ≤ avg ≤ max ≤ 1 GiB.
 *
 * <p>A split ends at the end of a record, so that it exceeds {@code max} by less than one record.
 */
public record SplitSizes(long min, long avg, long max) {
    /** The longest split that any sizes allow, less the rest of its last record: 1 GiB. */
    public static final long LIMIT = 1L << 30;

    /** What {@code put} takes if no mean is asked for: 64 MiB. */
    public static final long DEFAULT_MEAN = 64L << 20;

    public SplitSizes {
        if (min < 1 || avg < min || max < avg || max > LIMIT) {
            throw new IllegalArgumentException("split sizes " + min + ", " + avg + ", " + max
                + " bytes, expected 1 <= min <= mean <= max <= " + LIMIT);
        }
    }

    /** From a quarter of {@code avg} to four times {@code avg}. */
    public static SplitSizes around(long avg) throws Refused {
        if (avg < 1024 || avg > LIMIT / 4) {
            throw new Refused("mean split length " + avg + " bytes: expected 1 KiB to 256 MiB");
        }
        return new SplitSizes(avg / 4, avg, 4 * avg);
    }

    /** Reads a mean as users write it: a number of bytes, or with KiB, MiB or GiB. */
    public static SplitSizes parse(String mean) throws Refused {
        int digits = 0;
        while (digits < mean.length() && Character.digit(mean.charAt(digits), 10) >= 0) {
            digits++;
        }
        int shift = switch (mean.substring(digits)) {
            case "" -> 0;
            case "KiB" -> 10;
            case "MiB" -> 20;
            case "GiB" -> 30;
            default -> -1;
        };
        if (shift < 0 || digits == 0 || digits > 10) {
            throw new Refused("mean split length '" + mean + "': expected a number such as 64MiB");
        }
        return around(Long.parseLong(mean.substring(0, digits)) << shift);
    }
}
