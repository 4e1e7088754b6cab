package suites;

import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.config.AbstractKafkaConfig;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** One `coordinatord serve`: its port and its temporary directory stay the same when it is stopped and started again. */
public final class Daemon {
    private static final long START_S = 60;
    private static final long STOP_S = 30;
    private static final int LOG_TAIL = 4_000;
    private static final Set<String> KNOWN = new HashSet<>(AbstractKafkaConfig.CONFIG_DEF.names());

    static {
        KNOWN.addAll(List.of(StandardAuthorizer.SUPER_USERS_CONFIG, StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG));
    }

    public final int port;
    private final Path directory;
    private Process process;

    public Daemon(Map<String, String> properties, String listener, String protocol) {
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
            directory = Files.createTempDirectory("kafka-suites");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Properties all = new Properties();
        all.putAll(properties);
        // A broker ignores names that it does not know; coordinatord refuses them.
        all.keySet().removeIf(name -> !((String) name).startsWith("listener.name.") && !KNOWN.contains(name));
        // Kafka has share groups by the feature share.version, whatever the setting.
        all.merge("group.coordinator.rebalance.protocols", "classic,consumer,share",
            (given, with) -> ((String) given).contains("share") ? given : given + ",share");
        all.put("listeners", listener + "://127.0.0.1:" + port);
        all.put("advertised.listeners", listener + "://localhost:" + port);
        all.put("listener.security.protocol.map", listener + ":" + protocol);
        all.put("inter.broker.listener.name", listener);
        all.put("advertised.kafka.version", "4.3"); // the tests' own
        all.put("log.dirs", directory.resolve("data").toString());
        try (var out = Files.newOutputStream(directory.resolve("server.properties"))) {
            all.store(out, null);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (isRunning()) process.destroyForcibly();
        }));
    }

    /** Start it and wait until clients can connect. */
    public synchronized void start() {
        if (isRunning()) return;
        Path ready = directory.resolve("ready.json");
        List<String> command = new ArrayList<>(List.of(System.getProperty("suites.python"), "-m", "coordinatord", "serve"));
        command.addAll(List.of("--config", directory.resolve("server.properties").toString()));
        command.addAll(List.of("--ready-file", ready.toString()));
        ProcessBuilder builder = new ProcessBuilder(command).directory(Path.of(System.getProperty("suites.repository")).toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("COORDINATORD_")); // settings, and the tests' own
        builder.environment().remove("PYTHONDONTWRITEBYTECODE"); // each start would compile all modules
        builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile()));
        try {
            process = builder.start();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_S);
            while (!Files.exists(ready)) {
                if (!process.isAlive() || System.nanoTime() > end) {
                    process.destroyForcibly();
                    throw new IllegalStateException("coordinatord does not start: " + logTail());
                }
                TimeUnit.MILLISECONDS.sleep(20);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            process.destroyForcibly();
            throw new IllegalStateException(e);
        }
    }

    public synchronized void stop() {
        if (!isRunning()) return;
        process.destroy();
        try {
            if (!process.waitFor(STOP_S, TimeUnit.SECONDS)) process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    public void removeDirectory() {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path path : files.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Path dataDirectory() {
        return directory.resolve("data");
    }

    private Path log() {
        return directory.resolve("daemon.log");
    }

    private String logTail() throws IOException {
        String text = Files.readString(log());
        return text.substring(Math.max(0, text.length() - LOG_TAIL));
    }
}
