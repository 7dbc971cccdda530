package onefold.incremental.mapreduce;

import java.io.IOException;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.serializer.Deserializer;
import org.apache.hadoop.io.serializer.SerializationFactory;
import org.apache.hadoop.io.serializer.Serializer;
import org.apache.hadoop.mapred.JobConf;

/** Bytes of the keys and values that map tasks of a job put out, by the job's own serialization. */
final class Codec {
    private final SerializationFactory factory;
    private final Class<?> keyClass;
    private final Class<?> valueClass;

    Codec(JobConf job) {
        factory = new SerializationFactory(job);
        keyClass = job.getMapOutputKeyClass();
        valueClass = job.getMapOutputValueClass();
    }

    Class<?> keyClass() {
        return keyClass;
    }

    Class<?> valueClass() {
        return valueClass;
    }

    /** Writes keys and values. */
    final class Encoder {
        final DataOutputBuffer key = new DataOutputBuffer();
        final DataOutputBuffer value = new DataOutputBuffer();
        private final Serializer<Object> keys = serializer(keyClass, key);
        private final Serializer<Object> values = serializer(valueClass, value);

        Encoder() throws IOException {
        }

        /** Fills {@link #key} and {@link #value}. */
        void encode(Object keyObject, Object valueObject) throws IOException {
            ensureClass(keyObject, keyClass, "key");
            ensureClass(valueObject, valueClass, "value");
            key.reset();
            value.reset();
            keys.serialize(keyObject);
            values.serialize(valueObject);
        }

        private void ensureClass(Object object, Class<?> expected, String what) throws IOException {
            if (object.getClass() != expected) {
                throw new IOException("Type mismatch in " + what + " from map: expected " + expected.getName()
                    + ", received " + object.getClass().getName());
            }
        }
    }

    /** Reads keys and values, into the same objects again and again where their classes allow that. */
    final class Decoder {
        private final DataInputBuffer keyBytes = new DataInputBuffer();
        private final DataInputBuffer valueBytes = new DataInputBuffer();
        private final Deserializer<Object> keys = deserializer(keyClass, keyBytes);
        private final Deserializer<Object> values = deserializer(valueClass, valueBytes);
        Object key;
        Object value;

        Decoder() throws IOException {
        }

        /** Sets {@link #key}. */
        void key(byte[] bytes, int from, int length) throws IOException {
            keyBytes.reset(bytes, from, length);
            key = keys.deserialize(key);
        }

        /** Sets {@link #value}. */
        void value(byte[] bytes, int from, int length) throws IOException {
            valueBytes.reset(bytes, from, length);
            value = values.deserialize(value);
        }
    }

    @SuppressWarnings("unchecked")
    private Serializer<Object> serializer(Class<?> type, DataOutputBuffer out) throws IOException {
        Serializer<Object> serializer = factory.getSerializer((Class<Object>) type);
        serializer.open(out);
        return serializer;
    }

    @SuppressWarnings("unchecked")
    private Deserializer<Object> deserializer(Class<?> type, DataInputBuffer in) throws IOException {
        Deserializer<Object> deserializer = factory.getDeserializer((Class<Object>) type);
        deserializer.open(in);
        return deserializer;
    }

    /** What the mapper was given as {@code object}, without the watch. */
    static Object plain(Object object) {
        return object instanceof WatchedOffset offset ? offset.plain() : object;
    }
}
