package onefold.incremental.split;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import onefold.incremental.Inputs;
import org.junit.jupiter.api.Test;

class GearTest {
    private static final File VECTORS = new File("../../vectors/cdc.json");

    /** All cut-points of a whole input, fed in pieces of random lengths. */
    private static List<Integer> cuts(SplitSizes sizes, long seed, byte[] data, Random random) {
        Gear gear = new Gear(sizes, seed);
        List<Integer> cuts = new ArrayList<>();
        int at = 0;
        while (at < data.length) {
            int to = (int) Math.min(data.length, at + 1L + random.nextInt(5000));
            int cut = gear.scan(data, at, to);
            at = cut < 0 ? to : cut;
            if (cut >= 0) {
                gear.restart();
                cuts.add(cut);
            }
        }
        if (data.length > 0 && (cuts.isEmpty() || cuts.get(cuts.size() - 1) != data.length)) {
            cuts.add(data.length);
        }
        return cuts;
    }

    @Test
    void cutsWhereTheVectorsOfTheCrateSay() throws Exception {
        int met = 0;
        for (JsonNode vector : new ObjectMapper().readTree(VECTORS).get("cases")) {
            boolean isOfThisRule = vector.get("algorithm").asText().equals("gear")
                && !vector.has("secret") && !vector.has("preset");
            if (!isOfThisRule) {
                continue;
            }
            SplitSizes sizes = new SplitSizes(vector.get("min").asLong(), vector.get("avg").asLong(),
                vector.get("max").asLong());
            byte[] data = input(vector.get("input"));
            List<Integer> cuts = cuts(sizes, vector.get("seed").asLong(), data, new Random(met));
            assertEquals(vector.get("count").asInt(), cuts.size(), vector::toString);
            ByteBuffer numbers = ByteBuffer.allocate(8 * cuts.size()).order(ByteOrder.LITTLE_ENDIAN);
            cuts.forEach(numbers::putLong);
            byte[] digest = Fingerprint.digest().digest(numbers.array());
            assertEquals(vector.get("sha256").asText(), HexFormat.of().formatHex(digest), vector::toString);
            met++;
        }
        assertTrue(met >= 20, "only " + met + " vectors");
    }

    private static byte[] input(JsonNode input) {
        int length = input.get("len").asInt();
        if (input.get("kind").asText().equals("splitmix64")) {
            return Inputs.splitMix(input.get("seed").asLong(), length, input.get("mask").asInt());
        }
        byte[] cycle = HexFormat.of().parseHex(input.get("hex").asText());
        byte[] data = new byte[length];
        for (int i = 0; i < length; i++) {
            data[i] = cycle[i % cycle.length];
        }
        return data;
    }

    @Test
    void theMeanIsThatOfTheSizes() {
        SplitSizes sizes = new SplitSizes(256, 1024, 4096);
        byte[] data = Inputs.splitMix(7, 8 << 20, 255);
        double mean = (double) data.length / cuts(sizes, 0, data, new Random(1)).size();
        // the cut at max takes e^-4 of 768 bytes
        assertEquals(1024 - 14, mean, 30);
    }
}
