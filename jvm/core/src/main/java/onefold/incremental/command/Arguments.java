package onefold.incremental.command;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The words of a command line: options with a value, flags, and operands. */
public final class Arguments {
    private final Map<String, String> values = new HashMap<>();
    private final Set<String> flags = new HashSet<>();
    private final List<String> operands = new ArrayList<>();

    /** A command line that makes no sense; the message says why. */
    public static final class Usage extends Exception {
        private static final long serialVersionUID = 1;

        public Usage(String message) {
            super(message);
        }
    }

    /** Reads {@code words}; what follows {@code --} is operands. */
    public Arguments(List<String> words, Set<String> valued, Set<String> plain) throws Usage {
        Deque<String> left = new ArrayDeque<>(words);
        while (!left.isEmpty()) {
            String word = left.pop();
            int equals = word.indexOf('=');
            String name = equals > 0 ? word.substring(0, equals) : word;
            if (word.equals("--")) {
                operands.addAll(left);
                return;
            } else if (valued.contains(name)) {
                if (equals < 0 && left.isEmpty()) {
                    throw new Usage(name + " needs a value");
                }
                values.put(name, equals > 0 ? word.substring(equals + 1) : left.pop());
            } else if (plain.contains(word)) {
                flags.add(word);
            } else if (word.startsWith("-") && word.length() > 1) {
                throw new Usage("unknown option " + word);
            } else {
                operands.add(word);
            }
        }
    }

    public String value(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    public String required(String name) throws Usage {
        String value = values.get(name);
        if (value == null) {
            throw new Usage(name + " is missing");
        }
        return value;
    }

    public boolean has(String flag) {
        return flags.contains(flag);
    }

    public List<String> operands() {
        return operands;
    }

    /** The operands, which must be as many as {@code names}. */
    public List<String> operands(String... names) throws Usage {
        if (operands.size() != names.length) {
            throw new Usage("expected " + String.join(" ", names) + ", got " + operands.size() + " operands");
        }
        return operands;
    }
}
