package onefold.incremental.split;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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
import java.util.function.BiFunction;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import onefold.incremental.Inputs;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

class GearTest {
    private static final File VECTORS = new File("../../vectors/cdc.json");

    /** All cut-points of a whole input, fed in pieces of random lengths. */
    private static List<Integer> cuts(Cutter gear, byte[] data, Random random) {
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
        compareWithVectors(Gear::new);
    }

    @Test
    void theNativeLibraryCutsWhereTheVectorsOfTheCrateSay() throws Exception {
        assumeNative();
        compareWithVectors(NativeGear::new);
    }

    /** Skips where the library was not built; one that was built must load. */
    private static void assumeNative() {
        String cpu = System.getProperty("os.arch");
        boolean isBuilt = GearTest.class.getResource("/onefold/native/linux-" + cpu + "/libonefold_jvm.so") != null;
        if (!isBuilt) {
            System.out.println("skipped: no native library for " + cpu + "; `cargo xtask natives` builds it");
        }
        Assumptions.assumeTrue(isBuilt);
        assertTrue(NativeLibrary.IS_LOADED);
    }

    private static void compareWithVectors(BiFunction<SplitSizes, Long, Cutter> cutter) throws Exception {
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
            List<Integer> cuts = cuts(cutter.apply(sizes, vector.get("seed").asLong()), data, new Random(met));
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
        double mean = (double) data.length / cuts(new Gear(sizes, 0), data, new Random(1)).size();
        // the cut at max takes e^-4 of 768 bytes
        assertEquals(1024 - 14, mean, 30);
    }

    @Test
    void theNativeLibraryCutsWhereJavaDoes() {
        assumeNative();
        Random random = new Random(3);
        for (int round = 0; round < 60; round++) {
            int min = 1 + random.nextInt(300);
            int avg = min + random.nextInt(2000);
            SplitSizes sizes = new SplitSizes(min, avg, avg + random.nextInt(5000));
            // a few values of bytes, so that runs and cuts at max occur
            byte[] data = Inputs.splitMix(round, 1 << 20, round % 3 == 0 ? 1 : 255);
            long seed = random.nextLong();
            assertEquals(cuts(new Gear(sizes, seed), data, new Random(round)),
                cuts(new NativeGear(sizes, seed), data, new Random(-round)), sizes::toString);
        }
    }

    @Test
    void splitsMayBeLongerThanTheCrateHoldsChunks() {
        assumeNative();
        SplitSizes sizes = new SplitSizes(70 << 20, 70 << 20, 70 << 20);
        byte[] data = new byte[71 << 20];
        assertEquals(List.of(70 << 20, 71 << 20), cuts(new NativeGear(sizes, 0), data, new Random(1) {
            @Override
            public int nextInt(int bound) {
                return 1 << 20;
            }
        }));
    }

    @Test
    void aMachineWithoutALibraryCutsInJavaAndLogsItForDebugging() {
        List<String> logged = new ArrayList<>();
        Logger logger = Logger.getLogger(NativeLibrary.class.getName());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                logged.add(entry.getLevel() + " " + entry.getMessage());
            }

            @Override
            public void flush() {
            }

            @Override
            public void close() {
            }
        };
        handler.setLevel(Level.ALL);
        logger.setLevel(Level.ALL);
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
        try {
            assertFalse(NativeLibrary.load("Linux", "sparc"));
        } finally {
            logger.removeHandler(handler);
        }
        assertEquals(List.of("FINE cut-points are found in Java: "
            + "/onefold/native/linux-sparc/libonefold_jvm.so is not in the jar"), logged);
    }
}
