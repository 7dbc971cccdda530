package onefold.spark;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/** Runs the package's own tests, each counted as one here, with each PySpark in a virtual environment. */
class PySparkTest {
    /** The newest one, and with {@code -Dpyspark.all=true} the older one that is supported too. */
    private static final List<String> VERSIONS =
            Boolean.getBoolean("pyspark.all") ? List.of("4.3.0", "3.5.9") : List.of("4.3.0");
    private static final long MOST_MINUTES = 60;
    static final Path TARGET = Path.of("target").toAbsolutePath();
    /** What the tests need beside PySpark, and what makes the wheel. */
    private static final List<String> OTHERS = List.of("pyarrow", "numpy", "pandas<3", "pytest", "hatchling");

    @TestFactory
    Stream<DynamicContainer> thePackageWorksOn() {
        return VERSIONS.stream().map(version -> DynamicContainer.dynamicContainer("PySpark " + version, tests(version)));
    }

    private static Stream<DynamicTest> tests(String version) {
        try {
            Path python = TARGET.resolve("venv-" + version).resolve("bin/python");
            Optional<String> missing = install(version, python);
            if (missing.isPresent()) {
                System.out.println("skipped: PySpark " + version + ": " + missing.get());
                return Stream.of(DynamicTest.dynamicTest(version, () -> Assumptions.abort(missing.get())));
            }
            Path report = TARGET.resolve("pytest-" + version + ".xml");
            Files.deleteIfExists(report);
            Map<String, String> settings = Map.of("PYTHONPATH", Path.of("").toAbsolutePath().toString(),
                "ONEFOLD_SPARK_JAR", Path.of("../spark/target/onefold-spark.jar").toRealPath().toString());
            run(TARGET.resolve("pytest-" + version + ".log"), settings, python.toString(), "-m", "pytest",
                "-p", "no:cacheprovider", "--junitxml=" + report, "tests");
            assertTrue(Files.exists(report), "pytest wrote no report; see target/pytest-" + version + ".log");
            return read(report).stream();
        } catch (Exception e) {
            return Stream.of(DynamicTest.dynamicTest(version, () -> fail(e)));
        }
    }

    /** Why PySpark cannot be had here, if so. */
    static Optional<String> install(String version, Path python) throws IOException, InterruptedException {
        Path done = TARGET.resolve("venv-" + version).resolve("done");
        String wanted = "pyspark==" + version + " " + String.join(" ", OTHERS);
        if (Files.exists(done) && Files.readString(done).equals(wanted)) {
            return Optional.empty();
        }
        Files.createDirectories(TARGET);
        Path log = TARGET.resolve("pip-" + version + ".log");
        try {
            if (run(log, Map.of(), "python3", "-m", "venv", "--clear", python.getParent().getParent().toString()) != 0) {
                return Optional.of("python3 makes no virtual environment; see " + log);
            }
        } catch (IOException e) {
            return Optional.of("python3 is not installed");
        }
        List<String> pip = new ArrayList<>(List.of(python.toString(), "-m", "pip", "install", "--quiet"));
        pip.add("pyspark==" + version);
        pip.addAll(OTHERS);
        int installed = run(log, Map.of(), pip.toArray(String[]::new));
        if (installed != 0) {
            return Optional.of("pip cannot install it; see " + log);
        }
        Files.writeString(done, wanted);
        return Optional.empty();
    }

    /** Runs a command with these variables set, and none of the caller's that name Python's modules. */
    static int run(Path log, Map<String, String> settings, String... words) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log.toFile());
        builder.environment().keySet().removeAll(List.of("PYTHONPATH", "ONEFOLD_SPARK_JAR"));
        builder.environment().putAll(settings);
        Process process = builder.start();
        if (!process.waitFor(MOST_MINUTES, TimeUnit.MINUTES)) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
            throw new IOException(String.join(" ", words) + " did not end in " + MOST_MINUTES + " minutes");
        }
        return process.exitValue();
    }

    private static List<DynamicTest> read(Path report) throws Exception {
        NodeList cases = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(report.toFile())
            .getElementsByTagName("testcase");
        List<DynamicTest> tests = new ArrayList<>();
        for (int i = 0; i < cases.getLength(); i++) {
            Element test = (Element) cases.item(i);
            tests.add(DynamicTest.dynamicTest(test.getAttribute("name"), () -> {
                for (String kind : List.of("failure", "error")) {
                    if (test.getElementsByTagName(kind).item(0) instanceof Element problem) {
                        fail(problem.getAttribute("message") + "\n" + problem.getTextContent());
                    }
                }
                if (test.getElementsByTagName("skipped").item(0) instanceof Element skip) {
                    System.out.println("skipped: " + test.getAttribute("name") + ": " + skip.getAttribute("message"));
                    Assumptions.abort(skip.getAttribute("message"));
                }
            }));
        }
        return tests;
    }
}
