package onefold.incremental.split;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import onefold.incremental.Refused;
import org.junit.jupiter.api.Test;

class RecordsTest {
    @Test
    void whatIsWrittenIsReadBack() throws Refused {
        for (String text : new String[] {"lines", "length:17", "delimiter:;", "delimiter:\\x0a\\x0a"}) {
            assertEquals(text, Records.parse(text).toString());
        }
        assertArrayEquals(new byte[] {'\n', '\\', 0, '\t', '\r'}, Records.parse("delimiter:\\n\\\\\\x00\\t\\r").delimiter());
    }

    @Test
    void aRefusalSaysWhatIsExpected() {
        for (String text : new String[] {"", "words", "delimiter:", "delimiter:\\q", "delimiter:\\x1", "length:0",
                "length:-3", "length:many", "length:99999999999"}) {
            Refused refused = assertThrows(Refused.class, () -> Records.parse(text), text);
            assertTrue(refused.getMessage().contains("expected") || refused.getMessage().contains("must"), refused.getMessage());
        }
        for (String mean : new String[] {"", "x", "64Mb", "1", "512MiB", "99999999999"}) {
            assertThrows(Refused.class, () -> SplitSizes.parse(mean), mean);
        }
    }
}
