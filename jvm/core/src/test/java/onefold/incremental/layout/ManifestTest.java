package onefold.incremental.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import onefold.incremental.Refused;
import onefold.incremental.split.Fingerprint;
import onefold.incremental.split.Records;
import onefold.incremental.split.SplitSizes;
import org.junit.jupiter.api.Test;

class ManifestTest {
    private static Manifest manifest(Records records, int splits) {
        List<Manifest.Entry> entries = new ArrayList<>();
        long length = 0;
        for (int i = 0; i < splits; i++) {
            byte[] fingerprint = new byte[Fingerprint.LENGTH];
            fingerprint[i % 32] = (byte) i;
            entries.add(new Manifest.Entry(1 + i, Fingerprint.of(fingerprint)));
            length += 1 + i;
        }
        return new Manifest(Layout.SHARED, new SplitSizes(1, 2, 3), records, length, 123, entries);
    }

    @Test
    void whatIsEncodedIsDecoded() throws Refused {
        for (Records records : List.of(Records.LINES, Records.parse("delimiter:abc"), Records.ofLength(77))) {
            for (int splits : new int[] {0, 1, 100}) {
                Manifest manifest = manifest(records, splits);
                assertEquals(manifest, Manifest.decode(manifest.encode(), "m"));
            }
        }
    }

    @Test
    void everyDamagedBitAndEveryShorterManifestIsRefused() throws Refused {
        byte[] encoded = manifest(Records.parse("delimiter:;"), 3).encode();
        for (int i = 0; i < encoded.length; i++) {
            for (int bit = 0; bit < 8; bit++) {
                byte[] damaged = encoded.clone();
                damaged[i] ^= (byte) (1 << bit);
                String message = assertThrows(Refused.class, () -> Manifest.decode(damaged, "name.x")).getMessage();
                assertTrue(message.startsWith("name.x ") && message.contains("run put again"), message);
            }
            byte[] shorter = Arrays.copyOf(encoded, i);
            assertThrows(Refused.class, () -> Manifest.decode(shorter, "m"));
        }
        assertThrows(Refused.class, () -> Manifest.decode(Arrays.copyOf(encoded, encoded.length + 1), "m"));
    }

    /** With a digest that matches, so that each field is looked at. */
    @Test
    void noBytesWithAMatchingDigestDoAnythingButDecodeOrGetRefused() throws Refused {
        java.util.Random random = new java.util.Random(1);
        byte[] encoded = manifest(Records.parse("delimiter:;"), 3).encode();
        int decoded = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] body = Arrays.copyOf(encoded, encoded.length - 32 - random.nextInt(3) * random.nextInt(40));
            for (int changes = random.nextInt(3); changes >= 0; changes--) {
                body[8 + random.nextInt(body.length - 8)] = (byte) (random.nextBoolean() ? random.nextInt() : 255);
            }
            byte[] whole = Arrays.copyOf(body, body.length + 32);
            System.arraycopy(Fingerprint.digest().digest(body), 0, whole, body.length, 32);
            try {
                Manifest.decode(whole, "m");
                decoded++;
            } catch (Refused e) {
                assertTrue(e.getMessage().length() > 10);
            }
        }
        assertTrue(decoded > 100);
    }
}
