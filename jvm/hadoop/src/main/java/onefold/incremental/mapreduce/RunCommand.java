package onefold.incremental.mapreduce;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Set;
import java.util.jar.JarFile;
import onefold.incremental.Refused;
import onefold.incremental.command.Arguments;
import onefold.incremental.command.Command;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Runs the main class of a jar, and lets each job that it submits use a memo. */
final class RunCommand implements Command {
    @Override
    public String name() {
        return "run";
    }

    @Override
    public String usage() {
        return "--memo DIR [--verify N%] -- JOB.jar [MainClass] ARGUMENTS...";
    }

    @Override
    public int run(Configuration conf, List<String> words, PrintStream out)
            throws IOException, InterruptedException, Arguments.Usage {
        int separator = words.indexOf("--");
        List<String> own = separator < 0 ? words : words.subList(0, separator);
        Arguments arguments = new Arguments(own, Set.of("--memo", "--verify"), Set.of());
        Path memo = new Path(arguments.required("--memo"));
        int percent = percent(arguments.value("--verify", "0%"));
        arguments.operands(new String[0]);
        List<String> program = separator < 0 ? List.of() : words.subList(separator + 1, words.size());
        if (program.isEmpty()) {
            throw new Arguments.Usage("the job's jar is missing: -- JOB.jar [MainClass] ARGUMENTS...");
        }
        File jar = new File(program.get(0));
        String mainClass = mainClass(jar);
        int first = mainClass == null ? 2 : 1;
        if (program.size() < first) {
            throw new Arguments.Usage(jar + " names no main class in its manifest; add one after the jar");
        }
        try (Session session = Session.begin(memo, percent, jar)) {
            invoke(session.loader(), mainClass == null ? program.get(1) : mainClass,
                program.subList(first, program.size()));
            session.sayIfNoJobWasSeen();
        }
        return 0;
    }

    private static int percent(String text) throws Arguments.Usage {
        String number = text.endsWith("%") ? text.substring(0, text.length() - 1) : text;
        try {
            int percent = Integer.parseInt(number.trim());
            if (percent >= 0 && percent <= 100) {
                return percent;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw new Arguments.Usage("--verify " + text + ": expected 0% to 100%");
    }

    private static String mainClass(File jar) throws IOException {
        if (!jar.isFile()) {
            throw new Refused(jar + " is no file, expected the jar of a job");
        }
        try (JarFile file = new JarFile(jar)) {
            String name = file.getManifest() == null
                ? null : file.getManifest().getMainAttributes().getValue("Main-Class");
            return name == null ? null : name.trim().replace('/', '.');
        } catch (java.util.zip.ZipException e) {
            throw new Refused(jar + " is no jar: " + e.getMessage(), e);
        }
    }

    private static void invoke(ClassLoader loader, String name, List<String> arguments)
            throws IOException, InterruptedException {
        try {
            Method main = Class.forName(name, true, loader).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments.toArray(String[]::new));
        } catch (ClassNotFoundException | NoSuchMethodException | IllegalAccessException e) {
            throw new Refused(name + " is no class with a public main: " + e, e);
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            if (cause instanceof Error error) {
                throw error;
            }
            if (cause instanceof RuntimeException runtime) {
                throw runtime;
            }
            if (cause instanceof InterruptedException interrupted) {
                throw interrupted;
            }
            throw cause instanceof IOException io ? io : new IOException(cause);
        }
    }
}
