package onefold.incremental.mapreduce;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.mapreduce.TaskCounter;

/** What a mapper counts in one split. */
final class Counts {
    /** A counter's name in its group. */
    record Name(String group, String name) {
    }

    /** The framework's count of records, which is kept as well. */
    static final Name RECORDS = new Name(TaskCounter.class.getName(), TaskCounter.MAP_INPUT_RECORDS.name());

    /** Makes a counter of one of Hadoop's two kinds. */
    interface Maker<C> {
        C make(Name name);
    }

    /** Reads what such a counter says. */
    interface Value<C> {
        long of(C counter);
    }

    /** Counters of one kind, made when they are first asked for. */
    static final class Own<C> {
        private final Map<Name, C> counters = new LinkedHashMap<>();
        private final Maker<C> maker;

        Own(Maker<C> maker) {
            this.maker = maker;
        }

        C get(String group, String name) {
            return counters.computeIfAbsent(new Name(group, name), maker::make);
        }

        C get(Enum<?> counter) {
            return get(counter.getDeclaringClass().getName(), counter.name());
        }

        /** Adds what they say to {@code counts}. */
        void addTo(Counts counts, Value<C> value) {
            counters.forEach((name, counter) -> counts.add(name, value.of(counter)));
        }
    }

    private final Map<Name, Long> values = new LinkedHashMap<>();

    void add(Name name, long value) {
        values.merge(name, value, Long::sum);
    }

    Map<Name, Long> values() {
        return values;
    }
}
