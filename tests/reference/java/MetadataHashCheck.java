import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;

/**
 * Kafka's hash of a group's topics, asked over standard input; one line of JSON for each question.
 *
 * <pre>
 * [[TOPIC ID, NAME, [[RACK, ...] for each partition]], ...]  ->  [HASH OF THE GROUP, HASH OF EACH TOPIC, ...]
 * </pre>
 *
 * Hashes are decimal strings.
 */
public final class MetadataHashCheck {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Long> hashes = new HashMap<>();
            List<String> answer = new ArrayList<>();
            for (JsonNode each : MAPPER.readTree(line)) {
                Topic topic = Topic.of(each);
                hashes.put(topic.name, Utils.computeTopicHash(topic.name, new Image(topic)));
                answer.add(hashes.get(topic.name).toString());
            }
            answer.add(0, Long.toString(Utils.computeGroupHash(hashes)));
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private record Topic(Uuid id, String name, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        static Topic of(JsonNode shown) {
            ByteBuffer id = ByteBuffer.wrap(HexFormat.of().parseHex(shown.get(0).asText()));
            List<List<String>> racks = new ArrayList<>();
            for (JsonNode partition : shown.get(2)) {
                List<String> replicas = new ArrayList<>();
                partition.forEach(rack -> replicas.add(rack.asText()));
                racks.add(replicas);
            }
            return new Topic(new Uuid(id.getLong(), id.getLong()), shown.get(1).asText(), racks);
        }

        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return new ArrayList<>(racks.get(partition));
        }
    }

    private record Image(Topic topic) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            return Set.of(topic.id);
        }

        @Override
        public Set<String> topicNames() {
            return Set.of(topic.name);
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String topicName) {
            return Optional.of(topic);
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid topicId) {
            return Optional.of(topic);
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }
}
