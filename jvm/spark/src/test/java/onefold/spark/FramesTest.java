package onefold.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class FramesTest {
    private static byte[] entry() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int i = 0; i < 5; i++) {
            Frames.store(out, Frames.output(i, new byte[20 * i]));
        }
        return out.toByteArray();
    }

    @Test
    void whatIsStoredIsLoaded() throws IOException {
        InputStream in = new ByteArrayInputStream(entry());
        for (int i = 0; i < 5; i++) {
            assertArrayEquals(Frames.output(i, new byte[20 * i]), Frames.load(in, Frames.OUTPUT));
        }
        assertTrue(Frames.load(in, Frames.OUTPUT) == null);
    }

    @Test
    void anyBytesAreLoadedOrRefused() throws IOException {
        Random random = new Random(1);
        byte[] entry = entry();
        int refused = 0;
        for (int i = 0; i < 5000; i++) {
            byte[] bytes = Arrays.copyOf(entry, entry.length - random.nextInt(entry.length));
            for (int changes = random.nextInt(4); changes > 0; changes--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
            InputStream in = new ByteArrayInputStream(bytes);
            try {
                while (Frames.load(in, Frames.KNOWN) != null) {
                    // goes on to the end
                }
            } catch (IOException e) {
                assertTrue(e.getMessage().contains("delete the memo"), e.getMessage());
                refused++;
            }
        }
        assertTrue(refused > 1000);
    }

    /** An array of the length that a frame claims would take all memory of these tests. */
    @Test
    void aLengthThatIsNotThereTakesNoMemory() {
        byte[] claim = ByteBuffer.allocate(10).putInt(1 << 30).array();
        for (int i = 0; i < 3; i++) {
            assertThrows(IOException.class, () -> Frames.load(new ByteArrayInputStream(claim), Frames.KNOWN));
        }
    }
}
