import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A JUnit 5 extension: a coordinatord of each test alone, and its control over HTTP.
 * {@code @RegisterExtension Coordinatord kafka = new Coordinatord();}
 */
public final class Coordinatord implements BeforeEachCallback, AfterEachCallback {
    private final HttpClient http = HttpClient.newHttpClient();
    private Path directory;
    private Process process;
    private String bootstrapServers;
    private String control;

    public String bootstrapServers() {
        return bootstrapServers;
    }

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        directory = Files.createTempDirectory("coordinatord");
        Path ready = directory.resolve("ready.json");
        String program = System.getenv().getOrDefault("COORDINATORD", "coordinatord");
        List<String> command = new ArrayList<>(List.of(program, "serve"));
        command.addAll(List.of("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"));
        command.addAll(List.of("--ready-file", ready.toString(), "--data-dir", directory.resolve("data").toString()));
        command.addAll(List.of("--set", "test.control.enable=true", "--set", "group.initial.rebalance.delay.ms=0"));
        command.addAll(List.of("--set", "log.flush=never"));
        command.addAll(List.of("--set", "log.retention.ms=-1")); // or records go as well when offsets expire, after a week
        process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("log").toFile())
                .start();
        long ends = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!Files.exists(ready)) {
            if (!process.isAlive() || System.nanoTime() > ends) {
                throw new IllegalStateException(Files.readString(directory.resolve("log")));
            }
            Thread.sleep(10);
        }
        String told = Files.readString(ready);
        bootstrapServers = first(told, "\"listeners\":\\s*\\[\"([^\"]+)\"");
        control = first(told, "\"admin\":\\s*\\[\"([^\"]+)\"") + "/test";
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        process.destroy();
        process.waitFor(10, TimeUnit.SECONDS);
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    /** What the control answers, as JSON. */
    public String ask(String method, String path, Map<String, ?> arguments) throws IOException, InterruptedException {
        String query = arguments.entrySet().stream()
                .map(each -> each.getKey() + "=" + URLEncoder.encode("" + each.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path + "?" + query))
                .method(method, HttpRequest.BodyPublishers.noBody())
                .build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer.body());
        }
        return answer.body();
    }

    /** A fault until it is closed. {@code arguments}: error, client, group, times, nth … */
    public Fault fault(String kind, String api, Map<String, ?> arguments) throws IOException, InterruptedException {
        String made = ask("POST", "/faults", join(Map.of("kind", kind, "api", api), arguments));
        return new Fault(number(made, "fault"));
    }

    public final class Fault implements AutoCloseable {
        private final int number;

        private Fault(int number) {
            this.number = number;
        }

        /** How many requests it has hit. */
        public int hits() throws IOException, InterruptedException {
            return number(ask("GET", "/faults/" + number, Map.of()), "hits");
        }

        @Override
        public void close() throws IOException, InterruptedException {
            ask("DELETE", "/faults/" + number, Map.of());
        }
    }

    private static int number(String json, String name) {
        return Integer.parseInt(first(json, "\"" + name + "\":\\s*(\\d+)"));
    }

    /** The first thing like this in a JSON text. A JSON library is the better choice if you have one. */
    public static String first(String json, String pattern) {
        Matcher found = Pattern.compile(pattern).matcher(json);
        if (!found.find()) {
            throw new IllegalStateException("no " + pattern + " in " + json);
        }
        return found.group(1);
    }

    private static Map<String, Object> join(Map<String, ?> one, Map<String, ?> other) {
        Map<String, Object> both = new java.util.TreeMap<>(one);
        both.putAll(other);
        return both;
    }
}
