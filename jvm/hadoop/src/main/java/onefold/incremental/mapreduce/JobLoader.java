package onefold.incremental.mapreduce;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;

/**
 * Loads a job's classes: those of its jar and of the jars in its folder lib, as Hadoop does.
 *
 * <p>To this loader's callers, {@link MemoProvider} is the first provider of clusters. Hadoop asks the
 * providers in order; this one looks at the job and leaves the answer to the next.
 */
final class JobLoader extends URLClassLoader {
    private static final String PROVIDERS =
        "META-INF/services/org.apache.hadoop.mapreduce.protocol.ClientProtocolProvider";

    private final Path libraries;

    private JobLoader(URL[] urls, Path libraries) {
        super(urls, JobLoader.class.getClassLoader());
        this.libraries = libraries;
    }

    static JobLoader of(File jar) throws IOException {
        Path libraries = Files.createTempDirectory("onefold-run-");
        List<URL> urls = new ArrayList<>();
        urls.add(jar.toURI().toURL());
        try (JarFile file = new JarFile(jar)) {
            for (JarEntry entry : Collections.list(file.entries())) {
                String name = entry.getName();
                boolean isLibrary = name.startsWith("lib/") && name.endsWith(".jar") && name.indexOf('/', 4) < 0;
                if (isLibrary) {
                    Path library = libraries.resolve(name.substring("lib/".length()));
                    try (InputStream in = file.getInputStream(entry)) {
                        Files.copy(in, library);
                    }
                    urls.add(library.toUri().toURL());
                }
            }
        }
        return new JobLoader(urls.toArray(URL[]::new), libraries);
    }

    @Override
    public Enumeration<URL> getResources(String name) throws IOException {
        if (!name.equals(PROVIDERS)) {
            return super.getResources(name);
        }
        List<URL> resources = Collections.list(super.getResources(name));
        URL own = MemoProvider.class.getResource("/onefold/incremental/mapreduce/provider");
        if (own == null) {
            throw new IOException("the jar of onefold lacks its list of providers");
        }
        resources.add(0, own);
        return Collections.enumeration(resources);
    }

    @Override
    public void close() throws IOException {
        super.close();
        try (Stream<Path> files = Files.list(libraries)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(libraries);
    }
}
