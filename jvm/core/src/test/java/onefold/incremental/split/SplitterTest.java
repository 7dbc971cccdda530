package onefold.incremental.split;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import onefold.incremental.Inputs;
import onefold.incremental.Refused;
import org.junit.jupiter.api.Test;

class SplitterTest {
    private static final SplitSizes SIZES = new SplitSizes(256, 1024, 4096);

    private static List<String> splits(byte[] data, Records records, Random random) {
        Splitter splitter = new Splitter(SIZES, records);
        List<String> splits = new ArrayList<>();
        int start = 0;
        for (int at = 0; at < data.length;) {
            int to = Math.min(data.length, at + 1 + random.nextInt(3000));
            int end = splitter.next(data, at, to);
            at = end < 0 ? to : end;
            if (end >= 0) {
                splits.add(text(data, start, end));
                start = end;
            }
        }
        if (start < data.length) {
            splits.add(text(data, start, data.length));
        }
        return splits;
    }

    private static String text(byte[] data, int from, int to) {
        return new String(data, from, to - from, StandardCharsets.ISO_8859_1);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    @Test
    void splitsAreWholeRecordsAndDoNotDependOnPieces() throws Refused {
        for (int seed = 0; seed < 40; seed++) {
            Random random = new Random(seed);
            byte[] data = Inputs.lines(seed, 60_000);
            if (seed % 4 == 1) {
                data = bytes(new String(data, StandardCharsets.ISO_8859_1).replace("\n", "\r\n"));
            }
            data = Arrays.copyOf(data, data.length - random.nextInt(3));
            String[] kinds = {"lines", "delimiter:w", "delimiter:\\n\\n", "delimiter:word1", "length:7", "length:5000"};
            for (String kind : kinds) {
                Records records = Records.parse(kind);
                List<String> splits = splits(data, records, random);
                assertEquals(splits, splits(data, records, new Random(seed + 1000)), kind);
                assertEquals(text(data, 0, data.length), String.join("", splits), kind);
                for (String split : splits.subList(0, splits.size() - 1)) {
                    assertTrue(split.length() >= SIZES.min(), kind);
                    if (records.length() > 0) {
                        assertEquals(0, split.length() % records.length(), kind);
                    } else {
                        assertTrue(split.endsWith(text(records.delimiter(), 0, records.delimiter().length)), kind);
                        List<String> parts = recordsOf(split, records);
                        String last = parts.get(parts.size() - 1);
                        assertTrue(split.length() - last.length() < SIZES.max(), kind + ": longer than a record over max");
                    }
                }
                // concatenated records of the splits are the records of the whole
                if (records.length() == 0) {
                    List<String> ofSplits = new ArrayList<>();
                    splits.forEach(split -> ofSplits.addAll(recordsOf(split, records)));
                    assertEquals(recordsOf(text(data, 0, data.length), records), ofSplits, kind);
                }
            }
        }
    }

    private static List<String> recordsOf(String text, Records records) {
        String delimiter = text(records.delimiter(), 0, records.delimiter().length);
        List<String> found = new ArrayList<>();
        for (int at = 0; at < text.length();) {
            int end = text.indexOf(delimiter, at);
            int next = end < 0 ? text.length() : end + delimiter.length();
            found.add(text.substring(at, next));
            at = next;
        }
        return found;
    }

    @Test
    void equalContentGivesEqualSplitsWhateverCameBefore() {
        byte[] rest = Inputs.lines(99, 50_000);
        List<String> own = splits(rest, Records.LINES, new Random(1));
        for (int seed = 0; seed < 30; seed++) {
            List<String> before = splits(Inputs.lines(seed, 20_000), Records.LINES, new Random(seed));
            // up to an end of a split, whatever was before
            String head = String.join("", before.subList(0, before.size() - 1));
            List<String> both = splits(Inputs.concat(bytes(head), rest), Records.LINES, new Random(seed));
            assertEquals(own, both.subList(before.size() - 1, both.size()));
        }
    }

    /** The bound that {@link Splitter} states: in the mean fewer than two splits behind the changed ones. */
    @Test
    void aLocalChangeChangesFewSplits() {
        int added = 0;
        int changes = 400;
        byte[] data = Inputs.lines(5, 400_000);
        Set<String> old = new HashSet<>(splits(data, Records.LINES, new Random(0)));
        for (int seed = 0; seed < changes; seed++) {
            Random random = new Random(seed);
            int at = random.nextInt(data.length);
            int removed = Math.min(random.nextInt(40), data.length - at);
            byte[] inserted = Inputs.lines(seed + 1000, random.nextInt(40));
            byte[] changed = Inputs.concat(Arrays.copyOf(data, at), inserted,
                Arrays.copyOfRange(data, at + removed, data.length));
            List<String> splits = splits(changed, Records.LINES, new Random(0));
            added += (int) splits.stream().filter(split -> !old.contains(split)).count();
        }
        // a change of up to 80 bytes lies in one split, or in two
        assertTrue(added <= 3 * changes, added + " new splits of " + changes + " changes");
        assertTrue(added >= changes / 2, added + " new splits of " + changes + " changes");
    }

    @Test
    void dataWithoutAnEndOfRecordIsOneSplit() {
        byte[] data = Inputs.splitMix(3, 100_000, 7);
        assertEquals(1, splits(data, Records.LINES, new Random(1)).size());
        assertEquals(0, splits(new byte[0], Records.LINES, new Random(1)).size());
        assertEquals(List.of("\n"), splits(bytes("\n"), Records.LINES, new Random(1)));
    }
}
