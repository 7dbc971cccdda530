package onefold.incremental;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;

/** The S3 server of the Rust tests, in a process of its own, with a bucket called {@code bucket}. */
public final class S3Server implements AutoCloseable {
    private static final Path PROGRAM = Path.of("../../crates/testkit/src/s3/server.py");

    private final Process process;
    private final String url;

    private S3Server(Process process, String url) {
        this.process = process;
        this.url = url;
    }

    /** Starts it, or returns null if {@code ONEFOLD_S3_SERVER} names no virtual environment with it. */
    public static S3Server start() throws IOException, InterruptedException {
        String folder = System.getenv("ONEFOLD_S3_SERVER");
        if (folder == null) {
            return null;
        }
        Process process = new ProcessBuilder(folder + "/bin/python", "-c", Files.readString(PROGRAM))
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        S3Server server = new S3Server(process, "http://127.0.0.1:" + out.readLine());
        HttpRequest make = HttpRequest.newBuilder(URI.create(server.url + "/bucket"))
            .version(HttpClient.Version.HTTP_1_1).PUT(HttpRequest.BodyPublishers.noBody()).build();
        int status = HttpClient.newHttpClient().send(make, HttpResponse.BodyHandlers.discarding()).statusCode();
        if (status != 200) {
            server.close();
            throw new IOException("the S3 server makes no bucket: status " + status);
        }
        return server;
    }

    /** Lets {@code s3a://bucket/} be in this server; what S3A uploads waits in {@code folder}. */
    public void tell(Configuration conf, Path folder) {
        conf.set("fs.s3a.endpoint", url);
        conf.set("fs.s3a.endpoint.region", "us-east-1");
        conf.set("fs.s3a.path.style.access", "true");
        conf.set("fs.s3a.connection.ssl.enabled", "false");
        conf.set("fs.s3a.access.key", "key");
        conf.set("fs.s3a.secret.key", "secret");
        conf.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider");
        conf.set("fs.s3a.buffer.dir", folder.toString());
    }

    @Override
    public void close() {
        process.destroy();
    }
}
