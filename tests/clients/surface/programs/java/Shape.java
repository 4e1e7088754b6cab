import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.protocol.Errors;

/** Makes plain JSON of a result: what its public methods without arguments return, futures waited for. */
final class Shape {
    private static final int DEEPEST = 10;
    private static final String CHANCE = "chance";
    private static final long SINCE_2017_MS = 1_500_000_000_000L;
    private static final Set<String> NO_FIELDS = Set.of("hashCode", "toString", "getClass", "clone", "notify", "notifyAll");

    private Shape() {}

    /** What stands for a future that failed. */
    record Failed(String name) {}

    /** The shape; `Failed` of a result all of whose futures failed alike. */
    static Object of(Object value) {
        Object shape = shape(value, DEEPEST);
        List<Object> ends = new ArrayList<>();
        leaves(shape, ends);
        boolean futures = value != null && isResult(value.getClass());
        return futures && !ends.isEmpty() && ends.get(0) instanceof Failed && ends.stream().distinct().count() == 1
            ? ends.get(0)
            : plain(shape);
    }

    private static boolean isResult(Class<?> type) {
        return type.getName().startsWith("org.apache.kafka.clients.admin.") && type.getName().endsWith("Result");
    }

    private static void leaves(Object shape, List<Object> into) {
        if (shape instanceof Map<?, ?> map) map.values().forEach(each -> leaves(each, into));
        else into.add(shape);
    }

    private static Object plain(Object shape) {
        if (shape instanceof Failed failed) return "error: " + failed.name();
        if (shape instanceof Map<?, ?> map) {
            Map<String, Object> all = new TreeMap<>();
            map.forEach((name, each) -> all.put(String.valueOf(name), name.equals("producerId") ? CHANCE : plain(each)));
            return all;
        }
        if (shape instanceof List<?> list) {
            return list.stream().map(Shape::plain).sorted(Comparator.comparing(Shape::sortable)).toList();
        }
        // What is chance is to put nothing into another order.
        return shape instanceof Long number && number > SINCE_2017_MS ? CHANCE : shape;
    }

    private static String sortable(Object item) {
        return item instanceof Number number ? String.format("%020d", number.longValue()) : json(item);
    }

    private static Object shape(Object value, int deeper) {
        if (value == null || value instanceof Boolean || value instanceof Number || value instanceof Failed) return value;
        if (value instanceof String || value instanceof Enum<?> || deeper == 0) return value.toString();
        if (value instanceof Throwable error) return new Failed(name(error));
        if (value instanceof byte[] bytes) return new String(bytes);
        if (value instanceof Optional<?> optional) return shape(optional.orElse(null), deeper);
        if (value instanceof OptionalInt optional) return optional.isPresent() ? optional.getAsInt() : null;
        if (value instanceof OptionalLong optional) return optional.isPresent() ? optional.getAsLong() : null;
        if (value instanceof KafkaFuture<?> future) return awaited(future, deeper);
        if (value instanceof Collection<?> all) {
            return all.stream().map(each -> shape(each, deeper - 1)).collect(Collectors.toCollection(ArrayList::new));
        }
        if (value instanceof Object[] all) return shape(List.of(all), deeper);
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> all = new TreeMap<>();
            map.forEach((key, each) -> all.put(String.valueOf(key), shape(each, deeper - 1)));
            return all;
        }
        boolean told = value.getClass().getName().startsWith("org.apache.kafka.") && !value.getClass().getName().endsWith("Uuid");
        return told ? fields(value, deeper) : value.toString();
    }

    private static Object awaited(KafkaFuture<?> future, int deeper) {
        try {
            return shape(future.get(Surface.LIMIT.toMillis(), TimeUnit.MILLISECONDS), deeper - 1);
        } catch (Exception error) {
            return new Failed(name(error));
        }
    }

    private static Object fields(Object value, int deeper) {
        Map<String, Object> all = new TreeMap<>();
        for (Method method : value.getClass().getMethods()) {
            boolean field = method.getParameterCount() == 0 && method.getReturnType() != void.class
                && !Modifier.isStatic(method.getModifiers()) && !method.isAnnotationPresent(Deprecated.class)
                && !NO_FIELDS.contains(method.getName()) && !method.getName().matches("to[A-Z].*");
            if (!field) continue;
            try {
                method.setAccessible(true);
                all.put(method.getName(), shape(method.invoke(value), deeper - 1));
            } catch (ReflectiveOperationException error) {
                all.put(method.getName(), new Failed(name(error.getCause())));
            }
        }
        if (isResult(value.getClass()) && all.size() > 1) all.remove("all"); // which of several errors it has, is chance
        return all;
    }

    /** An error by Kafka's name for it, or by its class. */
    static String name(Throwable error) {
        Throwable cause = error;
        while (cause instanceof ExecutionException || cause instanceof CompletionException) cause = cause.getCause();
        Errors named = Errors.forException(cause);
        return named == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : named.name();
    }

    static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(each -> json(String.valueOf(each.getKey())) + ": " + json(each.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof Collection<?> all) {
            return all.stream().map(Shape::json).collect(Collectors.joining(", ", "[", "]"));
        }
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return value instanceof Double number && !Double.isFinite(number) ? "null" : String.valueOf(value);
        }
        StringBuilder text = new StringBuilder("\"");
        for (char each : value.toString().toCharArray()) {
            if (each == '"' || each == '\\') text.append('\\').append(each);
            else if (each < ' ') text.append(String.format("\\u%04x", (int) each));
            else text.append(each);
        }
        return text.append('"').toString();
    }
}
