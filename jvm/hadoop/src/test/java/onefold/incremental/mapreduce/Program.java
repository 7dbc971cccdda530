package onefold.incremental.mapreduce;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;

/** Runs programs as users do: a new Java process with the jar of onefold and Hadoop's. */
final class Program {
    private static final Pattern REPLAYED = Pattern.compile("(\\d+) of (\\d+) splits replayed");

    /** What a process ended with, and all that it printed. */
    record Ended(int status, String output) {
        /** Splits replayed and splits in all, for each job that used the memo. */
        List<String> replayed() {
            List<String> found = new ArrayList<>();
            Matcher matcher = REPLAYED.matcher(output);
            while (matcher.find()) {
                found.add(matcher.group(1) + "/" + matcher.group(2));
            }
            return found;
        }

        /** What a counter of the last job says, or 0. */
        long counter(String name) {
            Matcher matcher = Pattern.compile("\\s" + Pattern.quote(name) + "=(\\d+)").matcher(output);
            long value = 0;
            while (matcher.find()) {
                value = Long.parseLong(matcher.group(1));
            }
            return value;
        }
    }

    private final Path folder;
    private final Path settings;
    private final String memo;
    private final Map<String, String> variables;

    /** A place for programs whose Hadoop has these settings, and the memo that they use. */
    Program(Path folder, Configuration conf, String memo) throws IOException {
        this(folder, conf, memo, Map.of());
    }

    /** A place for programs that have these variables in addition. */
    Program(Path folder, Configuration conf, String memo, Map<String, String> variables) throws IOException {
        this.folder = folder;
        this.memo = memo;
        this.variables = variables;
        // by default a program notices after up to 5 seconds that its job has ended
        conf.setInt(Job.COMPLETION_POLL_INTERVAL_KEY, 50);
        conf.setInt(Job.PROGRESS_MONITOR_POLL_INTERVAL_KEY, 50);
        settings = writeSettings(folder.resolve("settings"), conf);
    }

    /** Makes a folder that tells these settings to a Java which has it first on its class path. */
    static Path writeSettings(Path settings, Configuration conf) throws IOException {
        Files.createDirectories(settings);
        // each part of Hadoop lets its own file outdo the others'
        for (String part : new String[] {"core", "hdfs", "mapred", "yarn"}) {
            try (OutputStream out = Files.newOutputStream(settings.resolve(part + "-site.xml"))) {
                conf.writeXml(out);
            }
        }
        return settings;
    }

    /** The jar of Hadoop's examples. */
    static String examples() {
        return onClassPath("hadoop-mapreduce-examples");
    }

    static String onClassPath(String part) {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(entry -> new File(entry).getName().contains(part)).findFirst()
            .orElseThrow(() -> new IllegalStateException(part + " is not on the class path"));
    }

    /** A jar of classes of these tests. */
    static Path jarOf(Path jar, Class<?>... classes) throws IOException {
        try (OutputStream file = Files.newOutputStream(jar); ZipOutputStream zip = new ZipOutputStream(file)) {
            for (Class<?> type : classes) {
                String name = type.getName().replace('.', '/') + ".class";
                zip.putNextEntry(new ZipEntry(name));
                try (var in = type.getClassLoader().getResourceAsStream(name)) {
                    in.transferTo(zip);
                }
            }
        }
        return jar;
    }

    /** Runs a command of onefold. */
    Ended onefold(String... words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(Main.class.getName()));
        command.addAll(List.of(words));
        return java(hadoop(), command);
    }

    /** The class path without these tests, whose jobs come in jars. */
    private static String hadoop() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(entry -> !entry.endsWith("test-classes")).collect(java.util.stream.Collectors.joining(File.pathSeparator));
    }

    /** Runs {@code program}, a jar, with the memo; {@code own} are options of run. */
    Ended run(List<String> own, String... program) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("run", "--memo", memo));
        words.addAll(own);
        words.add("--");
        words.addAll(List.of(program));
        return onefold(words.toArray(String[]::new));
    }

    /** Runs a main class with Hadoop alone. */
    Ended plain(String mainClass, String... words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(mainClass));
        command.addAll(List.of(words));
        return java(System.getProperty("java.class.path"), command);
    }

    private Ended java(String classPath, List<String> command) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElse("java"),
            "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Djava.io.tmpdir=" + folder, "-cp",
            settings + File.pathSeparator + classPath));
        words.addAll(command);
        Path output = Files.createTempFile(folder, "output", ".txt");
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(output.toFile())
            .directory(folder.toFile());
        builder.environment().putAll(variables);
        Process process = builder.start();
        if (!process.waitFor(5, TimeUnit.MINUTES)) {
            process.destroyForcibly();
            throw new IOException("still running after 5 minutes: " + Files.readString(output));
        }
        return new Ended(process.exitValue(), Files.readString(output));
    }

    /** The lines of each part of an output folder, in order, by the part's name. */
    static Map<String, List<String>> parts(Path output) throws IOException {
        Map<String, List<String>> parts = new java.util.TreeMap<>();
        try (Stream<Path> files = Files.list(output)) {
            for (Path file : files.filter(path -> path.getFileName().toString().startsWith("part")).toList()) {
                parts.put(file.getFileName().toString(), Files.readAllLines(file));
            }
        }
        return parts;
    }

    /** The same with the lines of each part sorted: where the order of equal keys' values is not given. */
    static Map<String, List<String>> bags(Path output) throws IOException {
        Map<String, List<String>> parts = parts(output);
        parts.replaceAll((name, lines) -> lines.stream().sorted(Comparator.naturalOrder()).toList());
        return parts;
    }
}
