package onefold.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import onefold.incremental.Refused;
import onefold.incremental.split.Records;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.util.LineReader;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.java.function.Function2;
import scala.Tuple2;

/** The functions of a Java job, from frames to frames: the counterpart of the Python package's worker. */
final class JavaFunctions implements FlatMapFunction<Iterator<byte[]>, byte[]> {
    private static final long serialVersionUID = 1;
    private static final int BATCH = 1000;

    /** From the records of a split to its results. */
    private final FlatMapFunction<Iterator<String>, ?> map;
    /** Combines values of equal keys, or null where results are no pairs. */
    private final Function2<Object, Object, Object> reduce;
    private final int parts;

    JavaFunctions(FlatMapFunction<Iterator<String>, ?> map, Function2<Object, Object, Object> reduce, int parts) {
        this.map = map;
        this.reduce = reduce;
        this.parts = parts;
    }

    @Override
    public Iterator<byte[]> call(Iterator<byte[]> frames) {
        return new Results(frames);
    }

    /** Objects as the frames of entries have them. */
    static byte[] encode(List<Object> batch) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(new ArrayList<>(batch));
        }
        return bytes.toByteArray();
    }

    /** The objects of a frame. */
    static List<?> decode(byte[] content) throws IOException {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(content)) {
            @Override
            protected Class<?> resolveClass(java.io.ObjectStreamClass wanted)
                    throws IOException, ClassNotFoundException {
                try {
                    return Class.forName(wanted.getName(), false, loader);
                } catch (ClassNotFoundException e) {
                    return super.resolveClass(wanted);
                }
            }
        }) {
            return (List<?>) in.readObject();
        } catch (ClassNotFoundException e) {
            throw new IOException("a result in the memo has a class that the job lacks", e);
        }
    }

    private final class Results implements Iterator<byte[]> {
        private final Iterator<byte[]> frames;
        private final ArrayDeque<byte[]> ready = new ArrayDeque<>();

        Results(Iterator<byte[]> frames) {
            this.frames = frames;
        }

        @Override
        public boolean hasNext() {
            try {
                while (ready.isEmpty() && frames.hasNext()) {
                    item(frames.next());
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return !ready.isEmpty();
        }

        @Override
        public byte[] next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return ready.poll();
        }

        private void item(byte[] frame) throws IOException {
            if (frame[0] != Frames.BEGIN) {
                ready.add(frame);
                return;
            }
            Frames.Header header = Frames.Header.of(frame);
            if (header.has(Frames.NODE)) {
                node(frame);
                return;
            }
            List<byte[]> known = new ArrayList<>();
            Body body = new Body(frames, known);
            List<byte[]> computed = compute(header, body);
            body.drain();
            if (header.has(Frames.VERIFIED)) {
                ensureEqual(header, known, computed);
            }
            ready.add(frame);
            ready.addAll(computed);
            ready.add(new byte[] {Frames.END});
        }

        private List<byte[]> compute(Frames.Header header, Body body) throws IOException {
            Iterator<?> results;
            try {
                results = map.call(new Lines(body, header));
            } catch (IOException | RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IOException("the function of the job failed: " + e, e);
            }
            if (reduce == null) {
                List<byte[]> outputs = new ArrayList<>();
                encodeAll(results, 0, outputs);
                return outputs;
            }
            List<Map<Object, Object>> combined = new ArrayList<>();
            for (int part = 0; part < parts; part++) {
                combined.add(new LinkedHashMap<>());
            }
            while (results.hasNext()) {
                Tuple2<?, ?> pair = (Tuple2<?, ?>) results.next();
                merge(combined.get(Math.floorMod(pair._1().hashCode(), parts)), pair);
            }
            List<byte[]> outputs = new ArrayList<>();
            for (int part = 0; part < parts; part++) {
                encodeAll(pairs(combined.get(part)), part, outputs);
            }
            return outputs;
        }

        private void node(byte[] begin) throws IOException {
            Map<Object, Object> combined = new LinkedHashMap<>();
            while (true) {
                byte[] frame = frames.next();
                if (frame[0] == Frames.ABANDON) {
                    ready.add(frame);
                    return;
                }
                if (frame[0] == Frames.END) {
                    break;
                }
                for (Object pair : decode(Frames.content(frame))) {
                    merge(combined, (Tuple2<?, ?>) pair);
                }
            }
            ready.add(begin);
            List<byte[]> outputs = new ArrayList<>();
            encodeAll(pairs(combined), Frames.Header.of(begin).part(), outputs);
            ready.addAll(outputs);
            ready.add(new byte[] {Frames.END});
        }

        private void merge(Map<Object, Object> combined, Tuple2<?, ?> pair) throws IOException {
            Object before = combined.get(pair._1());
            try {
                combined.put(pair._1(), before == null ? pair._2() : reduce.call(before, pair._2()));
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IOException("the reduce function of the job failed: " + e, e);
            }
        }

        private Iterator<?> pairs(Map<Object, Object> combined) {
            return combined.entrySet().stream().map(entry -> new Tuple2<>(entry.getKey(), entry.getValue())).iterator();
        }

        private void encodeAll(Iterator<?> results, int part, List<byte[]> outputs) throws IOException {
            List<Object> batch = new ArrayList<>();
            while (results.hasNext()) {
                batch.add(results.next());
                if (batch.size() == BATCH || !results.hasNext()) {
                    outputs.add(Frames.output(part, encode(batch)));
                    batch.clear();
                }
            }
        }

        private void ensureEqual(Frames.Header header, List<byte[]> known, List<byte[]> computed) throws IOException {
            if (!objects(known).equals(objects(computed))) {
                throw new Refused("verification failed: the memo's entry " + header.name()
                    + " is not what the job computes from its split now; the job's functions depend on more than"
                    + " their input, or changed without a new version; change the version, or run without a memo");
            }
        }

        private List<Object> objects(List<byte[]> outputs) throws IOException {
            List<Object> objects = new ArrayList<>();
            for (byte[] frame : outputs) {
                objects.addAll(decode(Frames.content(frame)));
            }
            return objects;
        }
    }

    /** The bytes of a split, out of its frames. Known results that come before are put aside. */
    private static final class Body extends InputStream {
        private final Iterator<byte[]> frames;
        private final List<byte[]> known;
        private byte[] frame = {Frames.DATA};
        private int at = 1;

        Body(Iterator<byte[]> frames, List<byte[]> known) {
            this.frames = frames;
            this.known = known;
        }

        @Override
        public int read() {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int from, int length) {
            while (frame[0] != Frames.END && at == frame.length) {
                frame = frames.next();
                at = 1;
                if (frame[0] == Frames.KNOWN) {
                    known.add(frame);
                    at = frame.length;
                }
            }
            if (frame[0] == Frames.END) {
                return -1;
            }
            int count = Math.min(length, frame.length - at);
            System.arraycopy(frame, at, bytes, from, count);
            at += count;
            return count;
        }

        /** Reads what the function left. */
        void drain() {
            byte[] rest = new byte[1 << 16];
            while (read(rest, 0, rest.length) >= 0) {
                continue;
            }
        }
    }

    /** The records as text. */
    private static final class Lines implements Iterator<String>, Serializable {
        private static final long serialVersionUID = 1;

        private final transient LineReader reader;
        private final transient Text text = new Text();
        private transient boolean isRead;
        private transient boolean isThere;

        Lines(InputStream in, Frames.Header header) throws IOException {
            Records records = Records.parse(header.records());
            reader = switch (records.kind()) {
                case LINES -> new LineReader(in);
                case DELIMITER -> new LineReader(in, records.delimiter());
                case LENGTH -> throw new Refused("records of one length are no text; put the file with lines or a"
                    + " delimiter to use it from Java");
            };
            if (header.has(Frames.MARK)) {
                in.skipNBytes(3);
            }
        }

        @Override
        public boolean hasNext() {
            if (!isRead) {
                try {
                    isThere = reader.readLine(text) > 0;
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
                isRead = true;
            }
            return isThere;
        }

        @Override
        public String next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            isRead = false;
            return text.toString();
        }
    }
}
