import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** The line protocol of ../README.md: arguments, and what is said on standard output. */
final class LineProtocol {
    private LineProtocol() {}

    static Map<String, String> arguments(String[] args) {
        return Arrays.stream(args)
            .map(each -> each.split("=", 2))
            .collect(Collectors.toMap(each -> each[0], each -> each[1]));
    }

    static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }

    static String numbers(Collection<Integer> partitions) {
        if (partitions.isEmpty()) return "-";
        return new TreeSet<>(partitions).stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    static String pairs(Map<Integer, Long> offsets) {
        if (offsets.isEmpty()) return "-";
        return new TreeMap<>(offsets).entrySet().stream()
            .map(each -> each.getKey() + ":" + each.getValue())
            .collect(Collectors.joining(","));
    }

    static Map<Integer, Long> parsedPairs(String text) {
        return Arrays.stream(text.split(","))
            .map(pair -> pair.split(":"))
            .collect(Collectors.toMap(pair -> Integer.valueOf(pair[0]), pair -> Long.valueOf(pair[1])));
    }
}
