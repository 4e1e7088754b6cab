import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;

/**
 * Kafka's hashes of topics and groups. A line in: a group's topics, each as id|name|racks of a partition;racks of the
 * next ..., separated by tabs; racks are separated by commas, and "-" is none. A line out: the topics' hashes in that
 * order, then the group's, separated by tabs.
 */
public class TopicHash {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder out = new StringBuilder();
            Map<String, Long> all = new HashMap<>();
            for (String topic : line.split("\t")) {
                String[] parts = topic.split("\\|", -1);
                long hash = Utils.computeTopicHash(parts[1], image(parts));
                all.put(parts[1], hash);
                out.append(hash).append('\t');
            }
            System.out.println(out.append(Utils.computeGroupHash(all)));
        }
    }

    private static CoordinatorMetadataImage image(String[] parts) {
        List<List<String>> racks = new ArrayList<>();
        for (String partition : parts[2].split(";", -1)) {
            racks.add(partition.equals("-") ? new ArrayList<>() : new ArrayList<>(List.of(partition.split(","))));
        }
        Object topic = proxy(CoordinatorMetadataImage.TopicMetadata.class, (self, method, given) ->
            switch (method.getName()) {
                case "id" -> Uuid.fromString(parts[0]);
                case "name" -> parts[1];
                case "partitionCount" -> racks.size();
                case "partitionRacks" -> racks.get((Integer) given[0]);
                default -> throw new IllegalStateException(method.getName());
            });
        return (CoordinatorMetadataImage) proxy(
            CoordinatorMetadataImage.class, (self, method, given) -> Optional.of(topic));
    }

    private static Object proxy(Class<?> of, InvocationHandler handler) {
        return Proxy.newProxyInstance(TopicHash.class.getClassLoader(), new Class<?>[] {of}, handler);
    }
}
