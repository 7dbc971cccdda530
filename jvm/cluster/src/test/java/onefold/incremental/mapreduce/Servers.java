package onefold.incremental.mapreduce;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeysPublic;

/** Hadoop's servers on this machine, each a process of its own, as an installation has them. */
final class Servers implements AutoCloseable {
    private static final String HDFS = "org.apache.hadoop.hdfs.server.";
    private static final String YARN = "org.apache.hadoop.yarn.server.";
    private static final long MOST_SECONDS = 120;

    private final Path folder;
    private final Map<String, Process> running = new HashMap<>();
    private final Map<String, String> variables;

    /** Servers that keep all in {@code folder}, with these variables. */
    Servers(Path folder, Map<String, String> variables) {
        this.folder = folder;
        this.variables = variables;
    }

    /** A port that no program has now. */
    static String freeAddress() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return "localhost:" + socket.getLocalPort();
        }
    }

    /** Adds settings of a file system with one name node and one data node; returns its URI. */
    String hdfs(String name, Configuration conf) throws IOException {
        Path home = Files.createDirectories(folder.resolve(name));
        String uri = "hdfs://" + freeAddress();
        conf.set(CommonConfigurationKeysPublic.FS_DEFAULT_NAME_KEY, uri);
        conf.set("dfs.namenode.name.dir", home.resolve("names").toUri().toString());
        conf.set("dfs.datanode.data.dir", home.resolve("data").toUri().toString());
        conf.set("dfs.replication", "1");
        // safe mode lasts until the data node is there
        conf.set("dfs.namenode.safemode.min.datanodes", "1");
        conf.set("dfs.namenode.safemode.extension", "0");
        conf.set("dfs.heartbeat.interval", "1");
        // while a name node starts, programs ask it again 240 times, every 500 ms
        conf.setBoolean("dfs.client.retry.policy.enabled", true);
        conf.set("dfs.client.retry.policy.spec", "500,240");
        for (String port : new String[] {"namenode.http-address", "datanode.address", "datanode.http.address",
                "datanode.ipc.address"}) {
            conf.set("dfs." + port, "localhost:0");
        }
        return uri;
    }

    /** Starts the file system {@code name}, which is empty, and returns when all users can write to it. */
    void startHdfs(String name, Configuration conf) throws IOException, InterruptedException {
        int formatted = java("format", name, conf, HDFS + "namenode.NameNode", "-format", "-nonInteractive").waitFor();
        if (formatted != 0) {
            throw new IOException("formatting ended with " + formatted + ": " + log("format", name));
        }
        startNameNode(name, conf);
        start("datanode", name, conf, HDFS + "datanode.DataNode");
        await(name, conf, "org.apache.hadoop.fs.FsShell", "-chmod", "777", "/");
    }

    /** Starts the name node only, without waiting for it. */
    void startNameNode(String name, Configuration conf) throws IOException {
        start("namenode", name, conf, HDFS + "namenode.NameNode");
    }

    /** Adds settings of a resource manager and a node manager. */
    void yarn(Configuration conf) throws IOException {
        Path home = Files.createDirectories(folder.resolve("yarn"));
        Settings.ofYarn(conf);
        for (String port : new String[] {"address", "scheduler.address", "resource-tracker.address", "admin.address",
                "webapp.address"}) {
            conf.set("yarn.resourcemanager." + port, freeAddress());
        }
        for (String port : new String[] {"address", "localizer.address", "webapp.address"}) {
            conf.set("yarn.nodemanager." + port, "localhost:0");
        }
        conf.set("yarn.nodemanager.local-dirs", home.resolve("local").toString());
        conf.set("yarn.nodemanager.log-dirs", home.resolve("logs").toString());
        conf.set("yarn.nodemanager.resource.cpu-vcores", "4");
    }

    /** Starts YARN, whose resource manager lets applications wait until the node has registered. */
    void startYarn(Configuration conf) throws IOException {
        start("resourcemanager", "yarn", conf, YARN + "resourcemanager.ResourceManager");
        start("nodemanager", "yarn", conf, YARN + "nodemanager.NodeManager");
    }

    /** Ends a server as a crash does. */
    void kill(String server, String name) throws InterruptedException {
        running.remove(name + "-" + server).destroyForcibly().waitFor();
    }

    private void start(String server, String name, Configuration conf, String mainClass) throws IOException {
        running.put(name + "-" + server, java(server, name, conf, mainClass));
    }

    /** Repeats a command until it succeeds. */
    private void await(String name, Configuration conf, String mainClass, String... words)
            throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(MOST_SECONDS);
        while (java("await", name, conf, mainClass, words).waitFor() != 0) {
            if (System.nanoTime() > end) {
                throw new IOException(name + " did not start: " + log("await", name) + log("namenode", name)
                    + log("datanode", name));
            }
        }
    }

    private Process java(String server, String name, Configuration conf, String mainClass, String... words)
            throws IOException {
        Path home = Files.createDirectories(folder.resolve(name));
        Path settings = Program.writeSettings(home.resolve("settings"), conf);
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx512m",
            "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "--add-opens=java.base/java.lang=ALL-UNNAMED"));
        command.addAll(List.of("-cp", settings + File.pathSeparator + System.getProperty("java.class.path"), mainClass));
        command.addAll(List.of(words));
        ProcessBuilder builder = new ProcessBuilder(command).directory(home.toFile()).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(home.resolve(server + ".log").toFile()));
        builder.environment().putAll(variables);
        // for the tasks that a node manager starts
        builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
        return builder.start();
    }

    private String log(String server, String name) throws IOException {
        Path log = folder.resolve(name).resolve(server + ".log");
        return Files.exists(log) ? "\n" + server + ": " + Files.readString(log) : "";
    }

    @Override
    public void close() throws InterruptedException {
        for (Process process : running.values()) {
            process.destroyForcibly().waitFor();
        }
    }
}
