package onefold.incremental.memo;

import java.util.Optional;
import onefold.incremental.split.Fingerprint;

/**
 * The name of an entry's file: the fingerprint, then a dot and the version of the format unless that is 1.
 *
 * <p>So entries of several versions lie side by side, and no release writes, reads or deletes those of another.
 */
record EntryName(Fingerprint split, int version) {
    /** The name of an entry that this release writes. */
    static EntryName of(Fingerprint split) {
        return new EntryName(split, Entry.VERSION);
    }

    /** What a file of this name is, if it is an entry. */
    static Optional<EntryName> parse(String name) {
        int dot = name.indexOf('.');
        Fingerprint split = Fingerprint.fromHex(dot < 0 ? name : name.substring(0, dot));
        if (split == null) {
            return Optional.empty();
        }
        try {
            int version = dot < 0 ? 1 : Integer.parseInt(name.substring(dot + 1));
            return Optional.of(new EntryName(split, version)).filter(parsed -> parsed.toString().equals(name));
        } catch (NumberFormatException e) {
            return Optional.empty();
        }
    }

    boolean isOfThisVersion() {
        return version == Entry.VERSION;
    }

    @Override
    public String toString() {
        return version == 1 ? split.toString() : split + "." + version;
    }
}
