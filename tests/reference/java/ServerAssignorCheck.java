import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.UnionSet;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Kafka's server-side assignors and its hash tables, asked over standard input; one line of JSON for each question.
 *
 * <pre>
 * {"do": "assign", "assignor": NAME, "epochs": [{"topics": {ID: PARTITIONS}, "homogeneous": BOOL,
 *  "members": [[ID, INSTANCE ID or null, [TOPIC ID, ...], NAMES], ...],
 *  "assignable": {TOPIC ID: [PARTITION, ...]} or absent}, ...]}
 *     ->  [[[MEMBER ID, [[TOPIC ID, [PARTITION, ...]], ...]], ...] or ERROR, ...]
 * {"do": "time", ... as "assign"}  ->  [MILLISECONDS of each epoch, when the JVM is warm]
 * {"do": "tables", "keys": "integers" or "uuids" or "strings", "capacity": N, "steps": [["put" or ..., KEY], ...]}
 *     ->  [KEY, ...]
 * {"do": "timeline", "steps": [["put" or "remove", KEY], ...]}  ->  [KEY, ...]
 * {"do": "names", "names": [NAME, ...], "matched": [NAME, ...]}  ->  [NAME, ...]
 * </pre>
 *
 * In each epoch members have what the one before gave them, as their records say it: a member whose assignment stays the
 * same has no new record. The answer has members whose record is new, in the order of the records.
 */
public final class ServerAssignorCheck {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int WARM_UPS = 40;
    private static final int TIMED = 11;
    private static long assignmentNs;
    private static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // the assignors log
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            ArrayNode answer = MAPPER.createArrayNode();
            switch (question.get("do").asText()) {
                case "assign" -> history(question, answer);
                case "time" -> time(question, answer);
                case "timeline" -> timeline(question, answer);
                case "names" -> new UnionSet<>(names(question.get("names")), names(question.get("matched")))
                    .iterator().forEachRemaining(answer::add);
                default -> tables(question, answer);
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private static void history(JsonNode question, ArrayNode answer) {
        PartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText());
        Map<String, Assignment> target = new HashMap<>();
        for (JsonNode epoch : question.get("epochs")) {
            try {
                answer.add(epoch(assignor, target, epoch));
            } catch (RuntimeException thrown) {
                answer.add(thrown.getClass().getSimpleName() + ": " + thrown.getMessage());
            }
        }
    }

    private static void time(JsonNode question, ArrayNode answer) {
        PartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText());
        int epochs = question.get("epochs").size();
        double[][] took = new double[epochs][TIMED];
        for (int i = 0; i < WARM_UPS + TIMED; i++) {
            Map<String, Assignment> target = new HashMap<>();
            for (int j = 0; j < epochs; j++) {
                epoch(assignor, target, question.get("epochs").get(j));
                if (i >= WARM_UPS) {
                    took[j][i - WARM_UPS] = assignmentNs / 1e6;
                }
            }
        }
        for (double[] each : took) {
            Arrays.sort(each);
            answer.add(each[TIMED / 2]);
        }
    }

    private static ArrayNode epoch(
        PartitionAssignor assignor,
        Map<String, Assignment> target,
        JsonNode epoch
    ) {
        Map<Uuid, Integer> topics = new HashMap<>();
        epoch.get("topics").fields().forEachRemaining(each -> topics.put(uuid(each.getKey()), each.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (JsonNode member : epoch.get("members")) {
            String memberId = member.get(0).asText();
            Assignment assigned = target.getOrDefault(memberId, Assignment.EMPTY);
            Optional<String> instanceId = Optional.ofNullable(member.get(1).isNull() ? null : member.get(1).asText());
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instanceId, subscription(member.get(2), member.get(3).asInt()), assigned));
            assigned.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                inverted.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, memberId)));
        }
        target.keySet().retainAll(members.keySet());
        GroupSpecImpl spec = new GroupSpecImpl(
            Collections.unmodifiableMap(members),
            epoch.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            inverted,
            Optional.ofNullable(epoch.get("assignable")).map(ServerAssignorCheck::assignable));
        long began = System.nanoTime();
        Map<String, MemberAssignment> assigned = assignor.assign(spec, new Topics(topics)).members();
        assignmentNs = System.nanoTime() - began;
        ArrayNode records = MAPPER.createArrayNode();
        for (String memberId : members.keySet()) {
            MemberAssignment each = assigned.get(memberId);
            Assignment now = each == null ? Assignment.EMPTY : new Assignment(each.partitions());
            if (!now.equals(target.get(memberId))) {
                ConsumerGroupTargetAssignmentMemberValue record = (ConsumerGroupTargetAssignmentMemberValue)
                    GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("g", memberId, now.partitions())
                        .value().message();
                target.put(memberId, Assignment.fromRecord(record));
                ArrayNode shown = records.addArray().add(memberId).addArray();
                record.topicPartitions().forEach(topic -> {
                    ArrayNode partitions = shown.addArray().add(hex(topic.topicId())).addArray();
                    topic.partitions().forEach(partitions::add);
                });
            }
        }
        return records;
    }

    private static Map<Uuid, Set<Integer>> assignable(JsonNode listed) {
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        listed.fields().forEachRemaining(each -> {
            Set<Integer> partitions = assignable.computeIfAbsent(uuid(each.getKey()), __ -> new HashSet<>());
            each.getValue().forEach(partition -> partitions.add(partition.asInt()));
        });
        return assignable;
    }

    /** Subscribed topics in this order; its size counts names of topics that do not exist, as TopicIds does. */
    private static Set<Uuid> subscription(JsonNode topics, int names) {
        Set<Uuid> subscription = new LinkedHashSet<>() {
            @Override
            public int size() {
                return Math.max(super.size(), names);
            }
        };
        topics.forEach(topic -> subscription.add(uuid(topic.asText())));
        return subscription;
    }

    private record Topics(Map<Uuid, Integer> partitions) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return partitions.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            throw new UnsupportedOperationException("the answers would depend on racks");
        }
    }

    private static void tables(JsonNode question, ArrayNode answer) {
        String kind = question.get("keys").asText();
        Map<Object, Boolean> table = new HashMap<>(question.get("capacity").asInt());
        for (JsonNode step : question.get("steps")) {
            Object key = switch (kind) {
                case "integers" -> step.get(1).asInt();
                case "uuids" -> uuid(step.get(1).asText());
                default -> step.get(1).asText();
            };
            switch (step.get(0).asText()) {
                case "put" -> table.put(key, true);
                case "compute" -> table.computeIfAbsent(key, __ -> true);
                case "remove" -> table.remove(key);
                default -> throw new IllegalArgumentException(step.toString());
            }
        }
        for (Object key : table.keySet()) {
            if (key instanceof Uuid id) {
                answer.add(hex(id));
            } else if (key instanceof Integer number) {
                answer.add(number);
            } else {
                answer.add((String) key);
            }
        }
    }

    private static Set<String> names(JsonNode listed) {
        List<String> names = new ArrayList<>();
        listed.forEach(name -> names.add(name.asText()));
        return new HashSet<>(names);
    }

    private static void timeline(JsonNode question, ArrayNode answer) {
        TimelineHashMap<String, Boolean> table = new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (JsonNode step : question.get("steps")) {
            if (step.get(0).asText().equals("put")) {
                table.put(step.get(1).asText(), true);
            } else {
                table.remove(step.get(1).asText());
            }
        }
        table.keySet().forEach(answer::add);
    }

    private static Uuid uuid(String hex) {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(hex));
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    private static String hex(Uuid id) {
        return HEX.formatHex(ByteBuffer.allocate(16)
            .putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array());
    }
}
