package onefold.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** The wheel with its jar inside, in a virtual environment without the sources, doing what the docs say. */
class WheelTest {
    private static final String PYSPARK = "4.3.0";
    private static final Path DOCS = Path.of("../../docs/incremental-spark.md");
    private static final Pattern COUNTS = Pattern.compile("hits=(\\d+).*misses=(\\d+)");
    private static final Path TARGET = PySparkTest.TARGET;

    @Test
    void theWordCountOfTheDocsComputesLittleAtItsSecondRun() throws Exception {
        Path pyspark = TARGET.resolve("venv-" + PYSPARK);
        Optional<String> missing = PySparkTest.install(PYSPARK, pyspark.resolve("bin/python"));
        if (missing.isPresent()) {
            System.out.println("skipped: the wheel: " + missing.get());
            Assumptions.abort(missing.get());
        }
        Path python = installWheel(pyspark);
        Path folder = TARGET.resolve("journey");
        delete(folder);
        Files.createDirectories(folder);
        Path logs = folder.resolve("logs.txt");
        Files.writeString(logs, text());
        List<String> blocks = pythonOf(Files.readString(DOCS));
        String before = blocks.get(1);
        assertTrue(before.contains("textFile(\"logs.txt\")"), before);
        // in place of the plain job's two last lines
        String after = before.substring(0, before.indexOf("counts = ")) + blocks.get(2);

        long[] first = incremental(python, folder, after, "first");
        assertEquals(0, first[0]);
        assertTrue(first[1] >= 3, first[1] + " splits");
        Files.writeString(logs, "one more line\n", StandardOpenOption.APPEND);
        run(python, folder, before);
        long[] second = incremental(python, folder, after, "second");
        assertTrue(second[0] >= 2 && second[1] >= 1 && second[1] <= 2, second[0] + " hits, " + second[1] + " misses");
        assertEquals(lines(folder.resolve("counts")), lines(folder.resolve("second")));
    }

    /** A Python that has the wheel, and PySpark from the other environment. */
    private static Path installWheel(Path pyspark) throws Exception {
        Path wheels = TARGET.resolve("wheels");
        delete(wheels);
        Path log = TARGET.resolve("wheel.log");
        succeed(log, pyspark.resolve("bin/python"), "-m", "pip", "wheel", "--quiet", "--no-deps",
            "--no-build-isolation", "--wheel-dir", wheels.toString(), ".");
        Path clean = TARGET.resolve("venv-wheel");
        assertEquals(0, PySparkTest.run(log, Map.of(), "python3", "-m", "venv", "--clear", clean.toString()));
        Path python = clean.resolve("bin/python");
        try (Stream<Path> made = Files.list(wheels)) {
            succeed(log, python, "-m", "pip", "install", "--quiet", "--no-index", made.findFirst().orElseThrow().toString());
        }
        Files.writeString(packages(clean).resolve("pyspark.pth"), packages(pyspark).toString());
        return python;
    }

    private static Path packages(Path environment) throws IOException {
        try (Stream<Path> versions = Files.list(environment.resolve("lib"))) {
            return versions.findFirst().orElseThrow().resolve("site-packages");
        }
    }

    private static void succeed(Path log, Path python, String... words) throws Exception {
        String[] all = Stream.concat(Stream.of(python.toString()), Stream.of(words)).toArray(String[]::new);
        assertEquals(0, PySparkTest.run(log, Map.of(), all), () -> String.join(" ", all) + ": see " + log);
    }

    private static long[] incremental(Path python, Path folder, String program, String output) throws Exception {
        String told = run(python, folder, program + "counts.saveAsTextFile(\"" + output + "\")\n");
        Matcher found = COUNTS.matcher(told);
        assertTrue(found.find(), told);
        return new long[] {Long.parseLong(found.group(1)), Long.parseLong(found.group(2))};
    }

    /** What a program prints that runs in {@code folder}. */
    private static String run(Path python, Path folder, String program) throws Exception {
        Path script = Files.writeString(folder.resolve("job.py"), "import os; os.chdir(os.path.dirname(__file__))\n" + program);
        Path log = folder.resolve("log");
        Map<String, String> settings = Map.of("PYSPARK_PYTHON", python.toString(), "SPARK_LOCAL_IP", "127.0.0.1");
        int status = PySparkTest.run(log, settings, python.toString(), script.toString());
        String told = Files.readString(log);
        assertEquals(0, status, told);
        return told;
    }

    /** The parts of a page that are Python. */
    private static List<String> pythonOf(String page) {
        return Pattern.compile("```python\n(.*?)```", Pattern.DOTALL).matcher(page).results()
            .map(block -> block.group(1)).toList();
    }

    private static String text() {
        Random random = new Random(1);
        StringBuilder text = new StringBuilder();
        while (text.length() < 24 << 20) {
            text.append("line ").append(random.nextInt(1000)).append(" of ").append(random.nextInt(50)).append('\n');
        }
        return text.toString();
    }

    /** All lines that a job wrote, in order. */
    private static List<String> lines(Path output) throws IOException {
        try (Stream<Path> parts = Files.list(output)) {
            List<String> lines = new java.util.ArrayList<>();
            for (Path part : parts.filter(path -> path.getFileName().toString().startsWith("part-")).toList()) {
                lines.addAll(Files.readAllLines(part));
            }
            lines.sort(Comparator.naturalOrder());
            return lines;
        }
    }

    private static void delete(Path folder) throws IOException {
        if (Files.exists(folder)) {
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
    }
}
