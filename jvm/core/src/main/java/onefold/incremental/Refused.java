package onefold.incremental;

import java.io.IOException;

/** What cannot be done, with the object, the reason and the way out in its message. */
public final class Refused extends IOException {
    private static final long serialVersionUID = 1;

    public Refused(String message) {
        super(message);
    }

    public Refused(String message, Throwable cause) {
        super(message, cause);
    }
}
