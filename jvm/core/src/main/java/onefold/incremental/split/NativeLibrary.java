package onefold.incremental.split;

import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Locale;

/** The library of jvm/native, which the jar has for Linux on x86-64 and aarch64. */
final class NativeLibrary {
    /** Whether the native methods can be called. */
    static final boolean IS_LOADED = load(System.getProperty("os.name"), System.getProperty("os.arch"));

    private NativeLibrary() {
    }

    /** Loads the library for a system and a CPU, as Java calls them, or logs why not. */
    static boolean load(String system, String cpu) {
        String name = "/onefold/native/" + system.toLowerCase(Locale.ROOT) + "-" + cpu + "/libonefold_jvm.so";
        try (InputStream in = NativeLibrary.class.getResourceAsStream(name)) {
            if (in == null) {
                return fallBack(name + " is not in the jar", null);
            }
            load(in.readAllBytes());
            return true;
        } catch (IOException | LinkageError e) {
            return fallBack(name + " cannot be loaded", e);
        }
    }

    /** Loads a file that no other user can write, and that is gone when the process ends. */
    private static void load(byte[] library) throws IOException {
        MessageDigest digest = Fingerprint.digest();
        digest.update(library);
        Path file = Files.createTempFile("onefold-" + Fingerprint.finish(digest) + "-", ".so");
        try {
            Files.write(file, library);
            System.load(file.toString());
        } finally {
            Files.delete(file);
        }
    }

    private static boolean fallBack(String reason, Throwable cause) {
        System.getLogger(NativeLibrary.class.getName())
            .log(Level.DEBUG, "cut-points are found in Java: " + reason, cause);
        return false;
    }
}
