import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.DeleteShareGroupStateResponseData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryResponseData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateResponseData;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's ShareCoordinatorShard, asked over standard input; one line of JSON for each program.
 *
 * <pre>
 * {"topic": ID as base64, "partitions": N, "updates": N, "cold": MS, "steps": [[NOW_MS, EXISTS, DO, ARGUMENT...], ...]}
 *     DO: initialize PARTITION STATE_EPOCH START_OFFSET
 *         read PARTITION LEADER_EPOCH
 *         write PARTITION STATE_EPOCH LEADER_EPOCH START_OFFSET COMPLETE [[FIRST, LAST, STATE, COUNT], ...]
 *         delete PARTITION / summary PARTITION / snapshots / topic_deleted
 *     ->  [[REPLY, [[KEY, VALUE or null], ...], OFFSET or null], ...]
 * </pre>
 *
 * EXISTS is false if the topic is deleted at that step. REPLY is [ERROR, MESSAGE, FIELD...] of the partition, null for
 * what has no reply. Keys and values are hexadecimal, records have offsets from 0 on; OFFSET is the last redundant one.
 */
public final class ShareCoordinatorCheck {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final String GROUP = "g";

    private final ShareCoordinatorShard shard;
    private final Uuid topicId;
    private long nowMs;
    private boolean exists;
    private long nextOffset;

    private ShareCoordinatorCheck(JsonNode program) throws Exception {
        byte[] raw = Base64.getUrlDecoder().decode(program.get("topic").asText());
        topicId = Uuid.fromString(Base64.getUrlEncoder().withoutPadding().encodeToString(raw));
        int partitions = program.get("partitions").asInt();
        Map<String, Object> settings = Map.of(
            ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, program.get("updates").asInt(),
            ShareCoordinatorConfig.COLD_PARTITION_SNAPSHOT_INTERVAL_MS_CONFIG, program.get("cold").asInt());
        AbstractConfig config = new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, settings, false);
        Time time = (Time) proxy(Time.class, name -> name.equals("milliseconds") || name.equals("hiResClockMs") ? nowMs : 0L);
        CoordinatorMetadataImage.TopicMetadata topic = (CoordinatorMetadataImage.TopicMetadata) proxy(
            CoordinatorMetadataImage.TopicMetadata.class, name -> name.equals("partitionCount") ? partitions : (Object) "orders");
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) proxy(
            CoordinatorMetadataImage.class, name -> exists ? Optional.of(topic) : Optional.empty());
        shard = new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(config))
            .withTime(time)
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .build();
        shard.onLoaded(image);
    }

    private interface ByName {
        Object call(String method);
    }

    private static Object proxy(Class<?> type, ByName answers) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> answers.call(method.getName()));
    }

    private ArrayNode step(JsonNode step) {
        nowMs = step.get(0).asLong();
        exists = step.get(1).asBoolean();
        ArrayNode reply = MAPPER.createArrayNode();
        List<CoordinatorRecord> records = new ArrayList<>();
        switch (step.get(2).asText()) {
            case "initialize" -> initialize(step, reply, records);
            case "read" -> read(step, reply, records);
            case "write" -> write(step, reply, records);
            case "delete" -> delete(step, reply, records);
            case "summary" -> summary(step, reply);
            case "snapshots" -> records.addAll(shard.snapshotColdPartitions().records());
            case "topic_deleted" -> records.addAll(shard.maybeCleanupShareState(Set.of(topicId)).records());
            default -> throw new IllegalArgumentException(step.toString());
        }
        ArrayNode answer = MAPPER.createArrayNode();
        answer.add(reply);
        ArrayNode logged = answer.addArray();
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        for (CoordinatorRecord record : records) {
            byte[] value = serde.serializeValue(record);
            ArrayNode pair = logged.addArray().add(HEX.formatHex(serde.serializeKey(record)));
            pair.add(value == null ? null : HEX.formatHex(value));
            shard.replay(nextOffset++, -1L, (short) -1, record);
        }
        answer.add(shard.lastRedundantOffset().response().orElse(null));
        return answer;
    }

    private void initialize(JsonNode step, ArrayNode reply, List<CoordinatorRecord> records) {
        CoordinatorResult<InitializeShareGroupStateResponseData, CoordinatorRecord> result = shard.initializeState(
            new InitializeShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(topicId).setPartitions(List.of(
                    new InitializeShareGroupStateRequestData.PartitionData()
                        .setPartition(step.get(3).asInt())
                        .setStateEpoch(step.get(4).asInt())
                        .setStartOffset(step.get(5).asLong()))))));
        var found = result.response().results().get(0).partitions().get(0);
        reply.add(found.errorCode()).add(found.errorMessage());
        records.addAll(result.records());
    }

    private void read(JsonNode step, ArrayNode reply, List<CoordinatorRecord> records) {
        CoordinatorResult<ReadShareGroupStateResponseData, CoordinatorRecord> result =
            shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new ReadShareGroupStateRequestData.ReadStateData().setTopicId(topicId).setPartitions(List.of(
                    new ReadShareGroupStateRequestData.PartitionData()
                        .setPartition(step.get(3).asInt())
                        .setLeaderEpoch(step.get(4).asInt()))))));
        var found = result.response().results().get(0).partitions().get(0);
        reply.add(found.errorCode()).add(found.errorMessage());
        if (found.errorCode() == 0) {
            reply.add(found.stateEpoch()).add(found.startOffset());
            ArrayNode batches = reply.addArray();
            for (var each : found.stateBatches()) {
                batches.addArray().add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryState()).add(each.deliveryCount());
            }
        }
        records.addAll(result.records());
    }

    private void write(JsonNode step, ArrayNode reply, List<CoordinatorRecord> records) {
        List<WriteShareGroupStateRequestData.StateBatch> batches = new ArrayList<>();
        for (JsonNode each : step.get(8)) {
            batches.add(new WriteShareGroupStateRequestData.StateBatch()
                .setFirstOffset(each.get(0).asLong())
                .setLastOffset(each.get(1).asLong())
                .setDeliveryState((byte) each.get(2).asInt())
                .setDeliveryCount((short) each.get(3).asInt()));
        }
        CoordinatorResult<WriteShareGroupStateResponseData, CoordinatorRecord> result = shard.writeState(
            new WriteShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new WriteShareGroupStateRequestData.WriteStateData().setTopicId(topicId).setPartitions(List.of(
                    new WriteShareGroupStateRequestData.PartitionData()
                        .setPartition(step.get(3).asInt())
                        .setStateEpoch(step.get(4).asInt())
                        .setLeaderEpoch(step.get(5).asInt())
                        .setStartOffset(step.get(6).asLong())
                        .setDeliveryCompleteCount(step.get(7).asInt())
                        .setStateBatches(batches))))));
        var found = result.response().results().get(0).partitions().get(0);
        reply.add(found.errorCode()).add(found.errorMessage());
        records.addAll(result.records());
    }

    private void delete(JsonNode step, ArrayNode reply, List<CoordinatorRecord> records) {
        CoordinatorResult<DeleteShareGroupStateResponseData, CoordinatorRecord> result = shard.deleteState(
            new DeleteShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(topicId).setPartitions(List.of(
                    new DeleteShareGroupStateRequestData.PartitionData().setPartition(step.get(3).asInt()))))));
        var found = result.response().results().get(0).partitions().get(0);
        reply.add(found.errorCode()).add(found.errorMessage());
        records.addAll(result.records());
    }

    private void summary(JsonNode step, ArrayNode reply) {
        ReadShareGroupStateSummaryResponseData response = shard.readStateSummary(
            new ReadShareGroupStateSummaryRequestData().setGroupId(GROUP).setTopics(List.of(
                new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData().setTopicId(topicId).setPartitions(List.of(
                    new ReadShareGroupStateSummaryRequestData.PartitionData().setPartition(step.get(3).asInt())))))).response();
        var found = response.results().get(0).partitions().get(0);
        reply.add(found.errorCode()).add(found.errorMessage());
        if (found.errorCode() == 0) {
            reply.add(found.stateEpoch()).add(found.leaderEpoch()).add(found.startOffset()).add(found.deliveryCompleteCount());
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode program = MAPPER.readTree(line);
            ShareCoordinatorCheck check = new ShareCoordinatorCheck(program);
            ArrayNode answers = MAPPER.createArrayNode();
            for (JsonNode step : program.get("steps")) {
                answers.add(check.step(step));
            }
            out.println(answers);
        }
        out.flush();
    }
}
