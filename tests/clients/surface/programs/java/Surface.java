import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/** Runs the methods of a client, tells how each ends, and finds those that nobody runs: the lines of ../README.md. */
final class Surface {
    static final Duration LIMIT = Duration.ofSeconds(10);
    /** For what waits to its end. */
    static final Duration SHORT = Duration.ofSeconds(1);
    private static final long SETTLING_MS = 10;
    private static final long BEGAN_MS = System.currentTimeMillis() - 60_000;
    static Map<String, String> arguments;
    private static final ExecutorService THREAD = Executors.newCachedThreadPool(run -> {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    });

    private final String part;
    private final Set<String> methods;
    private final Set<String> seen = new TreeSet<>();

    /** The methods of a type. Overloads that differ only in their options are one; others have their types with them. */
    Surface(String part, Class<?> type) {
        this.part = part;
        Map<String, Set<String>> signatures = new TreeMap<>();
        for (Method method : type.getMethods()) {
            if (Modifier.isStatic(method.getModifiers()) || method.getDeclaringClass() == Object.class) continue;
            String types = Arrays.stream(method.getParameterTypes())
                .filter(each -> !each.getSimpleName().endsWith("Options") && each != Duration.class)
                .map(Class::getSimpleName)
                .collect(Collectors.joining(", "));
            signatures.computeIfAbsent(method.getName(), name -> new TreeSet<>()).add(types);
        }
        methods = new TreeSet<>();
        signatures.forEach((name, all) -> {
            for (String types : all) methods.add(all.size() == 1 ? name : name + "(" + types + ")");
        });
    }

    static void start(String[] args) {
        arguments = Arrays.stream(args)
            .map(each -> each.split("=", 2))
            .collect(Collectors.toMap(each -> each[0], each -> each[1]));
    }

    static String named(String what) {
        return arguments.get("prefix") + "-" + what;
    }

    /** When a record was made: a second after the one before it. */
    static long timeMs(int number) {
        return BEGAN_MS + 1_000L * number;
    }

    private static double now() {
        return System.currentTimeMillis() / 1000.0;
    }

    private void say(String method, String text, String outcome, Object detail, Double began) {
        if (!methods.contains(method)) throw new IllegalStateException(part + " has no " + method + " but " + methods);
        seen.add(method);
        Map<String, Object> line = new TreeMap<>(Map.of("part", part, "method", method, "case", text, "outcome", outcome));
        line.put("detail", detail);
        if (began != null) {
            line.put("began", began);
            line.put("ended", now());
        }
        System.out.println(Shape.json(line));
        System.out.flush();
    }

    /** Methods that reach no broker. */
    void local(String why, String... all) {
        for (String method : all) say(method, "", "local", why, null);
    }

    /** Methods that reach no broker, called on an object that does nothing else when they take no arguments. */
    void local(Object object, String why, String... all) throws Exception {
        for (String method : all) {
            Double began = null;
            for (Method each : object.getClass().getMethods()) {
                if (!each.getName().equals(method) || each.getParameterCount() > 0) continue;
                Thread.sleep(SETTLING_MS);
                began = now();
                each.invoke(object);
                Thread.sleep(SETTLING_MS);
            }
            say(method, "", "local", why, began);
        }
    }

    /** A case of a method: the shape of what it returns, or the error that it ends with. */
    void run(String method, String text, Callable<?> call) {
        double began = now();
        Future<?> ending = THREAD.submit(() -> Shape.of(call.call()));
        try {
            Object shape = ending.get(LIMIT.toMillis() * 2, TimeUnit.MILLISECONDS);
            if (shape instanceof Shape.Failed failed) say(method, text, "error", failed.name(), began);
            else say(method, text, "ok", shape, began);
        } catch (ExecutionException error) {
            say(method, text, "error", Shape.name(error.getCause()), began);
        } catch (TimeoutException | InterruptedException error) {
            say(method, text, "error", "no answer", began);
        }
    }

    /** For what returns nothing. */
    void call(String method, String text, Action action) {
        run(method, text, () -> {
            action.act();
            return null;
        });
    }

    interface Action {
        void act() throws Exception;
    }

    /** Waits for what a broker tells only a moment after it has been changed. */
    static void until(Callable<Boolean> holds) throws Exception {
        for (int turn = 0; turn < 500; turn++) {
            if (holds.call()) return;
            Thread.sleep(20);
        }
        throw new IllegalStateException("waited too long");
    }

    void end() {
        for (String method : methods) if (!seen.contains(method)) say(method, "", "not covered", null, null);
    }
}
