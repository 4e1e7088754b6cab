import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.fetch.AcquisitionLockTimerTask;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Kafka's SharePartition, asked over standard input; one line of JSON for each program.
 *
 * <pre>
 * {"lock": MS, "limit": DELIVERIES, "locks": RECORDS, "renew": BOOLEAN, "letters": BOOLEAN, "steps": [[NOW_MS, DO, ...]]}
 *     DO: initialize START EPOCH [[FIRST, LAST, STATE, COUNT], ...]      the first step, or a restart
 *         acquire MEMBER LIMITED BATCH_SIZE MOST OFFSET [[FIRST, LAST], ...] [[ABORTED_FIRST, LAST], ...]
 *         acknowledge MEMBER [[FIRST, LAST, [TYPE, ...]], ...]
 *         release MEMBER / time / move OFFSET / written STEP COMMITTED / letters STEP WRITTEN
 *     ->  [[REPLY, WRITE, STATE, LETTERS], ...]; LETTERS is [[FIRST, LAST, COUNT, MESSAGE], ...], in order; STATE is
 *         [START, END, COMPLETE, GAP, NEXT_OFFSET, CAN_ACQUIRE, [[FIRST, LAST, RECORD or [RECORD, ...]], ...]]
 *         RECORD is [STATE, COUNT, MEMBER, CHANGES, DEADLINE]
 * </pre>
 *
 * A step may write several times, such as for locks that end together: WRITE is [START, COMPLETE, BATCHES] of all of
 * them, with the numbers of the last one. "written" ends all writes of a step, "letters" all its dead letters.
 */
public final class SharePartitionCheck {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String GROUP = "g";
    private static final TopicIdPartition TOPIC = new TopicIdPartition(new Uuid(1, 2), new TopicPartition("orders", 0));

    private record Writing(CompletableFuture<WriteShareGroupStateResult> future, PartitionStateBatchData data) {
    }

    private record Letter(CompletableFuture<Void> future, ShareGroupDLQRecordParameter of) {
    }

    private final JsonNode program;
    private Object partition;
    private long nowMs;
    private final List<TimerTaskEntry> timers = new ArrayList<>();
    private List<Writing> writes = new ArrayList<>();
    private final Map<Integer, List<Writing>> writesOfStep = new HashMap<>();
    private List<Letter> letters = new ArrayList<>();
    private final Map<Integer, List<Letter>> lettersOfStep = new HashMap<>();
    private ReadShareGroupStateResult read;

    private SharePartitionCheck(JsonNode program) {
        this.program = program;
    }

    private interface ByName {
        Object call(String method, Object[] arguments);
    }

    private static Object proxy(Class<?> type, ByName answers) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> answers.call(method.getName(), arguments));
    }

    private Object create() throws Exception {
        Time time = (Time) proxy(Time.class, (name, arguments) -> nowMs);
        Timer timer = (Timer) proxy(Timer.class, (name, arguments) -> {
            TimerTask task = (TimerTask) arguments[0];
            timers.add(new TimerTaskEntry(task, nowMs + task.delayMs));
            return null;
        });
        Persister persister = (Persister) proxy(Persister.class, (name, arguments) ->
            name.equals("readState") ? CompletableFuture.completedFuture(read) : write((WriteShareGroupStateParameters) arguments[0]));
        Class<?> type = Class.forName("kafka.server.share.SharePartition");
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            if (constructor.getParameterCount() == 15) {
                constructor.setAccessible(true);
                return constructor.newInstance(GROUP, TOPIC, 0, program.get("locks").asInt(), program.get("limit").asInt(),
                    program.get("lock").asInt(), timer, time, persister, null, (Consumer<Object>) key -> { }, configs(), null,
                    (Supplier<Boolean>) () -> true, proxy(ShareGroupDLQManager.class, (name, arguments) -> enqueue((ShareGroupDLQRecordParameter) arguments[0])));
            }
        }
        throw new IllegalStateException("SharePartition has no such constructor");
    }

    private ShareGroupConfigProvider configs() {
        return new ShareGroupConfigProvider(null) {
            @Override
            public int recordLockDurationMsOrDefault(String group, int value) {
                return value;
            }

            @Override
            public int deliveryCountLimitOrDefault(String group, int value) {
                return value;
            }

            @Override
            public int partitionMaxRecordLocksOrDefault(String group, int value) {
                return value;
            }

            @Override
            public boolean isRenewAcknowledgeEnabled(String group) {
                return program.get("renew").asBoolean();
            }

            @Override
            public Optional<String> errorsDLQTopicName(String group) {
                return program.get("letters").asBoolean() ? Optional.of("dlq.g") : Optional.empty();
            }
        };
    }

    private CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters asked) {
        CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
        writes.add(new Writing(future, asked.groupTopicPartitionData().topicsData().get(0).partitions().get(0)));
        return future;
    }

    private CompletableFuture<Void> enqueue(ShareGroupDLQRecordParameter of) {
        CompletableFuture<Void> future = new CompletableFuture<>();
        letters.add(new Letter(future, of));
        return future;
    }

    private Object call(String name, Object... arguments) throws Exception {
        for (Method method : partition.getClass().getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(partition, arguments);
            }
        }
        throw new IllegalStateException(name);
    }

    private ArrayNode step(int number, JsonNode step) throws Exception {
        nowMs = step.get(0).asLong();
        ArrayNode answer = MAPPER.createArrayNode();
        try {
            reply(answer, step);
        } catch (Exception failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            return answer.removeAll().add(cause.getClass().getSimpleName());
        }
        writesOfStep.put(number, writes);
        lettersOfStep.put(number, letters);
        write(answer);
        answer.add(state());
        ArrayNode found = answer.addArray();
        letters.forEach(each -> found.addArray().add(each.of().firstOffset()).add(each.of().lastOffset()).add(each.of().deliveryCount().orElseThrow())
            .add(each.of().cause().orElseThrow().getMessage()));
        writes = new ArrayList<>();
        letters = new ArrayList<>();
        return answer;
    }

    private void write(ArrayNode answer) {
        if (writes.isEmpty()) {
            answer.addNull();
            return;
        }
        PartitionStateBatchData last = writes.get(writes.size() - 1).data();
        ArrayNode written = answer.addArray().add(last.startOffset()).add(last.deliveryCompleteCount());
        ArrayNode batches = written.addArray();
        writes.stream().flatMap(each -> each.data().stateBatches().stream()).sorted(Comparator.comparingLong(PersisterStateBatch::firstOffset)).forEach(each ->
            batches.addArray().add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryState()).add(each.deliveryCount()));
    }

    private void reply(ArrayNode answer, JsonNode step) throws Exception {
        switch (step.get(1).asText()) {
            case "initialize" -> answer.add(initialize(step));
            case "acquire" -> acquire(answer.addArray(), step);
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (JsonNode each : step.get(3)) {
                    List<Byte> types = new ArrayList<>();
                    each.get(2).forEach(type -> types.add((byte) type.asInt()));
                    batches.add(new ShareAcknowledgementBatch(each.get(0).asLong(), each.get(1).asLong(), types));
                }
                CompletableFuture<?> future = (CompletableFuture<?>) call("acknowledge", step.get(2).asText(), batches);
                if (future.isCompletedExceptionally()) {
                    Throwable failure = future.handle((value, thrown) -> thrown).get();
                    failure = failure instanceof CompletionException ? failure.getCause() : failure;
                    answer.addArray().add(Errors.forException(failure).code()).add(failure.getMessage());
                } else {
                    answer.addNull();
                }
            }
            case "release" -> {
                call("releaseAcquiredRecords", step.get(2).asText());
                answer.addNull();
            }
            case "time" -> {
                runTimers();
                answer.addNull();
            }
            case "move" -> {
                call("updateCacheAndOffsets", step.get(2).asLong());
                answer.addNull();
            }
            case "written" -> {
                end(writesOfStep.get(step.get(2).asInt()), step.get(3).asBoolean());
                answer.addNull();
            }
            case "letters" -> {
                for (Letter each : lettersOfStep.get(step.get(2).asInt())) {
                    if (step.get(3).asBoolean()) {
                        each.future().complete(null);
                    } else {
                        each.future().completeExceptionally(new IllegalStateException("not written"));
                    }
                }
                answer.addNull();
            }
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    private String initialize(JsonNode step) throws Exception {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (JsonNode each : step.get(4)) {
            batches.add(new PersisterStateBatch(each.get(0).asLong(), each.get(1).asLong(), (byte) each.get(2).asInt(), (short) each.get(3).asInt()));
        }
        read = new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC.topicId(), List.of(
            PartitionFactory.newPartitionAllData(0, step.get(3).asInt(), step.get(2).asLong(), (short) 0, "", batches))))).build();
        timers.clear();
        writesOfStep.clear();
        lettersOfStep.clear();
        partition = create();
        call("maybeInitialize");
        return call("partitionState").toString();
    }

    private void acquire(ArrayNode reply, JsonNode step) throws Exception {
        ShareAcquireMode mode = step.get(3).asBoolean() ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        List<FetchResponseData.AbortedTransaction> aborted = new ArrayList<>();
        for (JsonNode each : step.get(8)) {
            aborted.add(new FetchResponseData.AbortedTransaction().setProducerId(each.get(0).asLong()).setFirstOffset(each.get(0).asLong()));
        }
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, Long.MAX_VALUE, 0, records(step.get(7), aborted), Optional.empty(),
            OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        ShareAcquiredRecords acquired = (ShareAcquiredRecords) call("acquire", step.get(2).asText(), mode, step.get(4).asInt(), step.get(5).asInt(),
            step.get(6).asLong(), data, FetchIsolation.TXN_COMMITTED);
        reply.add(acquired.count());
        ArrayNode found = reply.addArray();
        for (var each : acquired.acquiredRecords()) {
            found.addArray().add(each.firstOffset()).add(each.lastOffset()).add(each.deliveryCount());
        }
    }

    /** Record batches with these offsets: a record at the first and at the last one. Each aborted batch has a producer of its own. */
    private static MemoryRecords records(JsonNode batches, List<FetchResponseData.AbortedTransaction> aborted) {
        ByteBuffer buffer = ByteBuffer.allocate(1024 + 256 * batches.size());
        for (JsonNode each : batches) {
            long first = each.get(0).asLong();
            long last = each.get(1).asLong();
            boolean gone = aborted.stream().anyMatch(one -> one.firstOffset() == first);
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE, TimestampType.CREATE_TIME,
                first, 0L, gone ? first : RecordBatch.NO_PRODUCER_ID, (short) (gone ? 0 : -1), gone ? 0 : -1, gone, 0);
            builder.appendWithOffset(first, 0L, null, new byte[1]);
            if (last > first) {
                builder.appendWithOffset(last, 0L, null, new byte[1]);
            }
            builder.close();
        }
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    private void runTimers() {
        List<TimerTaskEntry> due = new ArrayList<>();
        timers.removeIf(entry -> entry.cancelled());
        timers.stream().filter(entry -> entry.expirationMs <= nowMs).sorted(Comparator.comparingLong(entry -> entry.expirationMs)).forEach(due::add);
        timers.removeAll(due);
        for (TimerTaskEntry entry : due) {
            if (!entry.cancelled()) {
                entry.timerTask.run();
            }
        }
    }

    private static void end(List<Writing> writes, boolean committed) {
        for (Writing each : writes) {
            Errors error = committed ? Errors.NONE : Errors.COORDINATOR_NOT_AVAILABLE;
            each.future().complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC.topicId(), List.of(
                PartitionFactory.newPartitionErrorData(0, error.code(), "failed"))))).build());
        }
    }

    @SuppressWarnings("unchecked")
    private ArrayNode state() throws Exception {
        ArrayNode state = MAPPER.createArrayNode();
        state.add((long) call("startOffset")).add((long) call("endOffset")).add((int) call("deliveryCompleteCount"));
        Object gap = call("persisterReadResultGapWindow");
        if (gap == null) {
            state.addNull();
        } else {
            ArrayNode window = state.addArray();
            for (String name : List.of("gapStartOffset", "endOffset")) {
                Field field = gap.getClass().getDeclaredField(name);
                field.setAccessible(true);
                window.add(field.getLong(gap));
            }
        }
        state.add((long) call("nextFetchOffset")).add((boolean) call("canAcquireRecords"));
        ArrayNode batches = state.addArray();
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) call("cachedState")).values()) {
            ArrayNode found = batches.addArray().add(batch.firstOffset()).add(batch.lastOffset());
            if (batch.offsetState() == null) {
                found.add(record(batch.batchState().id(), batch.batchDeliveryCount(), batch.batchMemberId(), batch.batchHasOngoingStateTransition(), batch.batchAcquisitionLockTimeoutTask()));
            } else {
                ArrayNode each = found.addArray();
                for (InFlightState one : batch.offsetState().values()) {
                    each.add(record(one.state().id(), one.deliveryCount(), one.memberId(), one.hasOngoingStateTransition(), one.acquisitionLockTimeoutTask()));
                }
            }
        }
        return state;
    }

    private static ArrayNode record(byte state, int count, String member, boolean changes, AcquisitionLockTimerTask lock) {
        ArrayNode found = MAPPER.createArrayNode().add(state).add(count).add(member).add(changes);
        return lock == null ? found.addNull() : found.add(lock.expirationMs());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode program = MAPPER.readTree(line);
            SharePartitionCheck check = new SharePartitionCheck(program);
            ArrayNode answers = MAPPER.createArrayNode();
            int number = 0;
            for (JsonNode step : program.get("steps")) {
                ArrayNode answer = check.step(number++, step);
                answers.add(answer);
                if (answer.size() == 1) {
                    break;  // an exception: the state may be anything
                }
            }
            out.println(answers);
        }
        out.flush();
    }
}
