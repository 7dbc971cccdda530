package onefold.incremental.mapreduce;

/** What a mapper looked at that belongs to the task and not to the split's bytes. */
final class Looked {
    private String first;

    /** The mapper looked at {@code what}. */
    void at(String what) {
        if (first == null) {
            first = what;
        }
    }

    /** What it looked at first, or null. */
    String first() {
        return first;
    }

    /** Begins a new split. */
    void clear() {
        first = null;
    }
}
