package onefold.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import onefold.incremental.memo.JobKey;
import org.apache.spark.util.AccumulatorV2;

/**
 * What a function captured.
 *
 * @param digest of the function's class and of all that it captured
 * @param hasAccumulator whether an accumulator is among that
 */
record Captured(String digest, boolean hasAccumulator) {
    static Captured by(Object function) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        boolean hasAccumulator;
        try (Written out = new Written(bytes)) {
            out.writeObject(function);
            hasAccumulator = out.hasAccumulator;
        }
        return new Captured(new JobKey.Builder().bytes("", bytes.toByteArray()).build().parts().get(""), hasAccumulator);
    }

    private static final class Written extends ObjectOutputStream {
        private boolean hasAccumulator;

        Written(OutputStream out) throws IOException {
            super(out);
            enableReplaceObject(true);
        }

        @Override
        protected Object replaceObject(Object written) {
            hasAccumulator |= written instanceof AccumulatorV2;
            return written;
        }
    }
}
