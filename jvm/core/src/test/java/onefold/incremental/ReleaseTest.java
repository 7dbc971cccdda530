package onefold.incremental;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class ReleaseTest {
    private static DataInputStream in(ByteArrayOutputStream bytes) {
        return new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()));
    }

    @Test
    void theVersionIsThatOfTheBuild() {
        assertTrue(Release.VERSION.matches("\\d+\\.\\d+\\.\\d+.*"), Release.VERSION);
    }

    @Test
    void aTaskOfAnotherReleaseIsToldBothVersionsAndItsJar() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Release.write(new DataOutputStream(bytes));
        assertDoesNotThrow(() -> Release.ensureSame(in(bytes)));
        ByteArrayOutputStream other = new ByteArrayOutputStream();
        new DataOutputStream(other).writeUTF("99.0.0");
        String message = assertThrows(Refused.class, () -> Release.ensureSame(in(other))).getMessage();
        assertTrue(message.contains("99.0.0") && message.contains(Release.VERSION)
            && message.contains("/core/target/classes"), message);
    }
}
