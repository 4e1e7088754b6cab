import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, asked over standard input; a JSON object per line, and one per line comes back.
 *
 * <pre>
 * {"do": "assign", "assignor": NAME, "topics": {TOPIC: [[RACK, ...] per partition]},
 *  "members": [[ID, INSTANCE ID or null, METADATA in hex], ...]}      ->  {ID: ASSIGNMENT in hex, ...}
 * {"do": "subscribe", "assignor": NAME, "topics": [...], "owned": [[TOPIC, PARTITION], ...],
 *  "generation": N, "rack": RACK or null, "assigned": [[TOPIC, PARTITION], ...] or null}  ->  {"metadata": HEX}
 * </pre>
 *
 * What an assignor throws is answered with {"error": its class}.
 */
public final class AssignorCheck {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // the assignors log
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                if (question.get("do").asText().equals("assign")) {
                    assign(question, answer);
                } else {
                    subscribe(question, answer);
                }
            } catch (RuntimeException thrown) {
                answer = MAPPER.createObjectNode().put("error", thrown.getClass().getSimpleName());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private static ConsumerPartitionAssignor assignor(JsonNode question) {
        return switch (question.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(question.toString());
        };
    }

    private static void assign(JsonNode question, ObjectNode answer) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            ByteBuffer metadata = ByteBuffer.wrap(HEX.parseHex(member.get(2).asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(metadata);
            subscription.setGroupInstanceId(
                member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText()));
            members.put(member.get(0).asText(), subscription);
        }
        Cluster cluster = cluster(question.get("topics"));
        assignor(question).assign(cluster, new GroupSubscription(members)).groupAssignment().forEach((id, assignment) ->
            answer.put(id, hex(ConsumerProtocol.serializeAssignment(assignment))));
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(
                        rack.asText(), name -> new Node(nodes.size(), "host", 9092, name)));
                }
                Node[] all = replicas.isEmpty() ? new Node[] {Node.noNode()} : replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static void subscribe(JsonNode question, ObjectNode answer) {
        ConsumerPartitionAssignor assignor = assignor(question);
        int generation = question.get("generation").asInt();
        if (!question.get("assigned").isNull()) {
            ConsumerGroupMetadata group = new ConsumerGroupMetadata("g", generation, "m", Optional.empty());
            assignor.onAssignment(new Assignment(partitions(question.get("assigned"))), group);
        }
        List<String> topics = new ArrayList<>();
        question.get("topics").forEach(topic -> topics.add(topic.asText()));
        Subscription subscription = new Subscription(
            topics,
            assignor.subscriptionUserData(new HashSet<>(topics)),
            partitions(question.get("owned")),
            generation,
            question.get("rack").isNull() ? Optional.empty() : Optional.of(question.get("rack").asText()));
        answer.put("metadata", hex(ConsumerProtocol.serializeSubscription(subscription)));
    }

    private static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> partitions = new ArrayList<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
