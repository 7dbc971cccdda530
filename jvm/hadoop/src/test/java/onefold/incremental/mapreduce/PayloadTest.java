package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableComparator;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.junit.jupiter.api.Test;

class PayloadTest {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<String> read(byte[] payload) throws IOException, InterruptedException {
        List<String> found = new ArrayList<>();
        Payload.read(new ByteArrayInputStream(payload), new Payload.Reader() {
            @Override
            public void pair(byte[] key, int keyLength, byte[] value, int valueLength) {
                found.add(new String(key, 0, keyLength, StandardCharsets.UTF_8) + "="
                    + new String(value, 0, valueLength, StandardCharsets.UTF_8));
            }

            @Override
            public void counter(String group, String name, long value) {
                found.add(group + "/" + name + ":" + value);
            }
        });
        return found;
    }

    private static byte[] sample() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Payload.Writer writer = new Payload.Writer(out);
        writer.pair(bytes("xkey"), 1, 3, bytes("value"), 0, 5);
        writer.pair(bytes(""), 0, 0, bytes("v".repeat(1000)), 0, 1000);
        writer.counter("group", "name", -7);
        writer.end();
        return out.toByteArray();
    }

    @Test
    void whatIsWrittenIsRead() throws Exception {
        assertEquals(List.of("key=value", "=" + "v".repeat(1000), "group/name:-7"), read(sample()));
    }

    @Test
    void anyBytesAreReadOrRefused() throws Exception {
        Random random = new Random(1);
        byte[] sample = sample();
        int refused = 0;
        for (int i = 0; i < 5000; i++) {
            byte[] bytes = Arrays.copyOf(sample, sample.length - random.nextInt(3) * random.nextInt(200));
            for (int changes = random.nextInt(4); changes > 0; changes--) {
                bytes[random.nextInt(Math.min(40, bytes.length))] = (byte) random.nextInt();
            }
            try {
                read(bytes);
            } catch (IOException e) {
                refused++;
            }
        }
        assertTrue(refused > 1000);
    }

    @Test
    void pairsAreSortedByTheirKeysAndKeepTheirOrderWhereKeysAreEqual() throws Exception {
        Random random = new Random(2);
        Pairs pairs = new Pairs();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            // as Text is serialized, with a length of one byte
            String key = "k" + random.nextInt(100);
            byte[] keyBytes = bytes((char) key.length() + key);
            byte[] value = bytes(Integer.toString(i));
            pairs.add(keyBytes, keyBytes.length, value, value.length);
            expected.add(key + "=" + i);
        }
        expected.sort(java.util.Comparator.comparing(pair -> pair.substring(0, pair.indexOf('='))));
        List<String> found = new ArrayList<>();
        RawKeyValueIterator sorted = pairs.sorted(WritableComparator.get(Text.class));
        while (sorted.next()) {
            int from = sorted.getKey().getPosition() + 1;
            String key = new String(sorted.getKey().getData(), from, sorted.getKey().getLength() - from, StandardCharsets.UTF_8);
            int start = sorted.getValue().getPosition();
            found.add(key + "=" + new String(sorted.getValue().getData(), start, sorted.getValue().getLength() - start,
                StandardCharsets.UTF_8));
        }
        assertEquals(expected, found);
    }

    @Test
    void bagsAreEqualWhateverTheOrderAndDifferWhereAPairDoes() {
        String[][] orders = {{"a", "b", "b"}, {"b", "a", "b"}, {"a", "b"}, {"a", "a", "b"}, {"a", "b", "c"}};
        List<Bag> bags = new ArrayList<>();
        for (String[] order : orders) {
            Bag bag = new Bag();
            for (String key : order) {
                bag.add(bytes(key), 1, bytes("v"), 1);
            }
            bags.add(bag);
        }
        assertEquals(bags.get(0), bags.get(1));
        for (int i = 2; i < bags.size(); i++) {
            assertNotEquals(bags.get(0), bags.get(i));
        }
    }
}
