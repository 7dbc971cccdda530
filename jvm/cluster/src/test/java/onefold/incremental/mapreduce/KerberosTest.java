package onefold.incremental.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.minikdc.MiniKdc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Jobs of a user with a ticket, whose tasks have tokens alone, on servers that all ask for Kerberos. The
 * memo is on a file system of its own: a token for the one that has input and output does not open it.
 */
class KerberosTest {
    private static final List<String> SERVICES = List.of("hdfs", "rm", "nm", "HTTP");
    private static final String USER = "ada";

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path folder;

    private static String service(String name) {
        return name + "/localhost@EXAMPLE.COM";
    }

    private static Configuration secure(File keytab) {
        Configuration conf = new Configuration();
        conf.set("hadoop.security.authentication", "kerberos");
        conf.set("hadoop.security.authorization", "true");
        conf.set("dfs.block.access.token.enable", "true");
        // instead of ports that only root can open, or of certificates
        conf.set("ignore.secure.ports.for.testing", "true");
        Map<String, String> services = Map.of("dfs.namenode.kerberos", "hdfs", "dfs.datanode.kerberos", "hdfs",
            "dfs.web.authentication.kerberos", "HTTP", "yarn.resourcemanager", "rm", "yarn.nodemanager", "nm");
        services.forEach((part, name) -> conf.set(part + ".principal", service(name)));
        for (String part : new String[] {"dfs.namenode.keytab.file", "dfs.datanode.keytab.file",
                "dfs.web.authentication.kerberos.keytab", "yarn.resourcemanager.keytab", "yarn.nodemanager.keytab"}) {
            conf.set(part, keytab.toString());
        }
        return conf;
    }

    @Test
    void tasksReadAndPublishEntriesByATokenForTheFileSystemOfTheMemo() throws Exception {
        Path home = Files.createDirectories(folder.resolve("kdc"));
        MiniKdc kdc = new MiniKdc(MiniKdc.createConf(), home.toFile());
        kdc.start();
        File keytab = home.resolve("services.keytab").toFile();
        File own = home.resolve("user.keytab").toFile();
        kdc.createPrincipal(keytab, SERVICES.stream().map(name -> name + "/localhost").toArray(String[]::new));
        kdc.createPrincipal(own, USER);
        String realm = "-Djava.security.krb5.conf=" + kdc.getKrb5conf();
        try (Servers servers = new Servers(folder, ticket(realm, service("hdfs"), keytab))) {
            Configuration memos = secure(keytab);
            String memo = servers.hdfs("memos", memos) + "/memo";
            Configuration conf = secure(keytab);
            servers.hdfs("data", conf);
            servers.yarn(conf);
            conf.set("yarn.nodemanager.admin-env", "JAVA_TOOL_OPTIONS=" + realm);
            servers.startHdfs("memos", memos);
            servers.startHdfs("data", conf);
            servers.startYarn(conf);
            Settings.ofJobs(conf);
            // with Kerberos a reduce asks for Hadoop's native library, which Maven lacks; maps use the memo
            conf.setInt("mapreduce.reduce.failures.maxpercent", 100);

            Program program = new Program(folder, conf, memo, ticket(realm, USER + "@EXAMPLE.COM", own));
            Path source = Files.writeString(folder.resolve("source"), YarnRunTest.text(1, 30_000));
            Program.Ended put = program.onefold("put", "--mean", "64KiB", source.toString(), "/in");
            assertEquals(0, put.status(), put.output());
            Program.Ended first = program.run(List.of(), Program.examples(), "wordcount", "/in", "/first");
            assertEquals(0, first.status(), first.output());
            long splits = first.counter("splits computed");
            assertTrue(splits >= 3 && !first.output().contains("not kept"), first.output());
            Program.Ended second = program.run(List.of(), Program.examples(), "wordcount", "/in", "/second");
            assertEquals(0, second.status(), second.output());
            assertEquals(splits, second.counter("splits replayed"), second.output());
            assertEquals(0, second.counter("splits computed"));
            Program.Ended none = new Program(folder.resolve("none"), conf, memo, Map.of("JAVA_TOOL_OPTIONS", realm))
                .onefold("stats", "--memo", memo);
            assertEquals(1, none.status(), "without a ticket the memo must not open: " + none.output());
        } finally {
            kdc.stop();
        }
    }

    /** Variables by which Hadoop gets a ticket from a keytab. */
    private static Map<String, String> ticket(String realm, String principal, File keytab) {
        return Map.of("JAVA_TOOL_OPTIONS", realm, "KRB5PRINCIPAL", principal, "KRB5KEYTAB", keytab.toString());
    }
}
