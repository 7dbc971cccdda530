package onefold.incremental.command;

import java.util.Locale;

/** Numbers as people read them. */
public final class Numbers {
    private Numbers() {
    }

    public static String bytes(long bytes) {
        String[] units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
        int unit = 0;
        double number = bytes;
        while (number >= 1024 && unit < units.length - 1) {
            number /= 1024;
            unit++;
        }
        return unit == 0 ? bytes + " bytes" : String.format(Locale.ROOT, "%.1f %s", number, units[unit]);
    }

    /** A share in percent; of nothing it is 0. */
    public static String share(long part, long whole) {
        return String.format(Locale.ROOT, "%.1f %%", whole == 0 ? 0.0 : 100.0 * part / whole);
    }
}
