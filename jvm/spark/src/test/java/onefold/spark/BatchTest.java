package onefold.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import onefold.incremental.Refused;
import onefold.incremental.Release;
import onefold.incremental.split.Fingerprint;
import org.junit.jupiter.api.Test;

class BatchTest {
    private static Fingerprint name(int value) {
        return Fingerprint.of(ByteBuffer.allocate(Fingerprint.LENGTH).put((byte) value).array());
    }

    /** What an executor is sent: a node of a reduce tree with a split and a node below it. */
    private static byte[] sent() throws IOException {
        List<Item.Child> children = List.of(new Item.Child(name(2), true), new Item.Child(name(3), false));
        Item node = new Item(7, name(1), null, children, 4, true);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new Batch(List.of(node), "lines", true, 99, new String[] {"host"}).write(new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    private static Batch received(byte[] bytes) throws IOException {
        Batch batch = new Batch();
        batch.readFields(new DataInputStream(new ByteArrayInputStream(bytes)));
        return batch;
    }

    @Test
    void anExecutorReceivesWhatTheDriverSent() throws IOException {
        Batch batch = received(sent());
        assertEquals("lines", batch.records());
        assertTrue(batch.hasMemo());
        assertEquals(99, batch.getLength());
        Item node = batch.items().get(0);
        assertEquals(7, node.index());
        assertEquals(name(1), node.name());
        assertEquals(List.of(new Item.Child(name(2), true), new Item.Child(name(3), false)), node.children());
        assertEquals(4, node.part());
        assertTrue(node.isVerified());
    }

    @Test
    void anExecutorWithAnotherJarIsToldBothReleases() throws IOException {
        ByteArrayOutputStream other = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(other);
        out.writeUTF("99.0.0");
        byte[] sent = sent();
        int version = 2 + Release.VERSION.length();
        out.write(sent, version, sent.length - version);
        String message = assertThrows(Refused.class, () -> received(other.toByteArray())).getMessage();
        assertTrue(message.contains("99.0.0") && message.contains(Release.VERSION), message);
    }
}
