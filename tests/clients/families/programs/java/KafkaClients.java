import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client, as a program of the line protocol. Compiles with kafka-clients 3.9 and 4.x. */
public final class KafkaClients {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Duration LONG_POLL = Duration.ofSeconds(1);
    private static final int COPIED_AT_ONCE = 20;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static volatile boolean closing = false;
    private static final Map<Integer, Long> next = new HashMap<>(); // what is read and not committed yet
    private static long committedAt = 0;
    private static Map<String, String> arguments;

    public static void main(String[] args) throws Exception {
        arguments = LineProtocol.arguments(args);
        switch (arguments.get("mode")) {
            case "consume" -> consume();
            case "copy" -> copy();
            case "admin" -> administer();
            default -> produce();
        }
    }

    private static Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments.get("bootstrap"));
        return properties;
    }

    private static KafkaConsumer<String, String> consumer() {
        Properties properties = properties();
        properties.put("group.id", arguments.get("group"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        if (asItComes()) {
            properties.put("client.id", arguments.get("client_id"));
        } else {
            properties.put("enable.auto.commit", "false");
        }
        if (nextProtocol()) { // the coordinator tells it the rest
            properties.put("group.protocol", "consumer");
            properties.put("group.remote.assignor", arguments.get("assignor"));
        } else if (!asItComes()) {
            properties.put("session.timeout.ms", arguments.get("session_timeout_ms"));
            properties.put("heartbeat.interval.ms", arguments.get("heartbeat_interval_ms"));
            properties.put("partition.assignment.strategy", ASSIGNORS.get(arguments.get("assignor")));
        }
        if (arguments.containsKey("isolation")) {
            properties.put("isolation.level", arguments.get("isolation"));
        }
        if (!arguments.getOrDefault("instance", "").isEmpty()) {
            properties.put("group.instance.id", arguments.get("instance"));
        }
        if ("copy".equals(arguments.get("mode"))) {
            properties.put("max.poll.records", COPIED_AT_ONCE);
        }
        return new KafkaConsumer<>(properties);
    }

    private static void subscribe(KafkaConsumer<String, String> consumer) throws ReflectiveOperationException {
        if (arguments.containsKey("pattern")) { // kafka-clients 3.9 has no such class
            Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            KafkaConsumer.class.getMethod("subscribe", pattern, ConsumerRebalanceListener.class).invoke(
                consumer, pattern.getConstructor(String.class).newInstance(arguments.get("pattern")), new Listener());
        } else {
            consumer.subscribe(List.of(arguments.get("topic")), new Listener());
        }
    }

    private static void consume() throws Exception {
        listenForClose();
        try (KafkaConsumer<String, String> consumer = consumer()) {
            subscribe(consumer);
            while (!closing) {
                turn(consumer);
            }
        }
        LineProtocol.say("CLOSED");
    }

    /** Read, process, write: what is read of one topic is in the other once. */
    private static void copy() throws Exception {
        Properties properties = properties();
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("transactional.id", arguments.get("transactional_id"));
        listenForClose();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
                KafkaConsumer<String, String> consumer = consumer()) {
            producer.initTransactions();
            subscribe(consumer);
            while (!closing) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (!records.isEmpty()) copyTogether(consumer, producer, records);
            }
        }
        LineProtocol.say("CLOSED");
    }

    /** One transaction: all of these, or none. */
    private static void copyTogether(
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records) {
        Map<Integer, Long> next = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> each : records) {
                LineProtocol.say("RECORD", "" + each.partition(), "" + each.offset(), each.value());
                producer.send(new ProducerRecord<>(arguments.get("target"), each.partition(), null, each.value()));
                next.put(each.partition(), each.offset() + 1);
                offsets.put(
                    new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
            LineProtocol.say("COMMITTED", LineProtocol.pairs(next));
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            LineProtocol.say("COMMIT_FAILED", error.toString().replace('\n', ' '));
            producer.abortTransaction();
            consumer.committed(consumer.assignment()).forEach((partition, offset) ->
                consumer.seek(partition, offset == null ? 0 : offset.offset()));
        }
    }

    /** Whether a consumer is a member by the consumer protocol (KIP-848) and not by the classic one. */
    private static boolean nextProtocol() {
        return "consumer".equals(arguments.get("protocol"));
    }

    /** Whether a consumer keeps its client's own settings and has it commit by itself. */
    private static boolean asItComes() {
        return "default".equals(arguments.get("settings"));
    }

    private static void turn(KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = consumer.poll(asItComes() ? LONG_POLL : POLL);
        for (ConsumerRecord<String, String> each : records) {
            LineProtocol.say("RECORD", "" + each.partition(), "" + each.offset(), each.value());
            next.put(each.partition(), each.offset() + 1);
        }
        long pause = Long.parseLong(arguments.getOrDefault("commit_every_ms", "0"));
        if (asItComes() || next.isEmpty() || System.currentTimeMillis() < committedAt + pause) return;
        committedAt = System.currentTimeMillis();
        try {
            consumer.commitSync(Duration.ofSeconds(20));
            LineProtocol.say("COMMITTED", LineProtocol.pairs(next));
        } catch (KafkaException error) {
            LineProtocol.say("COMMIT_FAILED", error.toString().replace('\n', ' '));
        }
        next.clear();
    }

    private static void listenForClose() {
        Thread listener = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                String line = lines.readLine();
                while (line != null && !line.trim().equals("close")) line = lines.readLine();
            } catch (java.io.IOException gone) {
                // the driver is gone, which means the same
            }
            closing = true;
        });
        listener.setDaemon(true);
        listener.start();
    }

    private static Set<Integer> numbersOf(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).collect(Collectors.toSet());
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            LineProtocol.say("ASSIGNED", LineProtocol.numbers(numbersOf(partitions)));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            next.keySet().removeAll(numbersOf(partitions));
            LineProtocol.say("REVOKED", LineProtocol.numbers(numbersOf(partitions)));
        }
    }

    private static void administer() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (Admin admin = Admin.create(properties())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    LineProtocol.say("OK", answer(admin, line.trim().split(" ")));
                } catch (ExecutionException error) {
                    Throwable cause = error.getCause();
                    String text = cause.toString().replace('\n', ' ');
                    LineProtocol.say("ERROR", "" + Errors.forException(cause).code(), text);
                }
            }
        }
    }

    private static String answer(Admin admin, String[] words) throws Exception {
        switch (words[0]) {
            case "list":
                ListConsumerGroupsOptions filters = new ListConsumerGroupsOptions();
                if (words.length > 1) {
                    filters.withTypes(Set.of(GroupType.parse(words[1])));
                    filters.inStates(Set.of(ConsumerGroupState.parse(words[2])));
                }
                return admin.listConsumerGroups(filters).all().get().stream()
                    .map(ConsumerGroupListing::groupId).collect(Collectors.joining(" "));
            case "describe":
                return described(admin.describeConsumerGroups(List.of(words[1])).all().get().get(words[1]));
            case "offsets":
                Map<Integer, Long> offsets = new HashMap<>();
                admin.listConsumerGroupOffsets(words[1]).partitionsToOffsetAndMetadata().get()
                    .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
                return LineProtocol.pairs(offsets);
            case "alter":
                Map<TopicPartition, OffsetAndMetadata> altered = new HashMap<>();
                LineProtocol.parsedPairs(words[3]).forEach((partition, offset) ->
                    altered.put(new TopicPartition(words[2], partition), new OffsetAndMetadata(offset)));
                admin.alterConsumerGroupOffsets(words[1], altered).all().get();
                return "";
            case "delete-offsets":
                Set<TopicPartition> partitions = List.of(words[3].split(",")).stream()
                    .map(each -> new TopicPartition(words[2], Integer.parseInt(each))).collect(Collectors.toSet());
                admin.deleteConsumerGroupOffsets(words[1], partitions).all().get();
                return "";
            case "delete":
                admin.deleteConsumerGroups(List.of(words[1])).all().get();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String described(ConsumerGroupDescription group) {
        Set<TopicPartition> owned = group.members().stream()
            .flatMap(member -> member.assignment().topicPartitions().stream()).collect(Collectors.toSet());
        return String.join(
            " ", group.state().toString(), "" + group.members().size(), LineProtocol.numbers(numbersOf(owned)));
    }

    private static void produce() throws Exception {
        Properties properties = properties();
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("compression.type", arguments.get("compression"));
        int count = Integer.parseInt(arguments.get("count"));
        boolean transactional = arguments.containsKey("transactional_id");
        if (transactional) properties.put("transactional.id", arguments.get("transactional_id"));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
                write(producer, "", count);
                producer.commitTransaction();
                producer.beginTransaction();
                write(producer, "aborted-", count);
                producer.abortTransaction();
            } else {
                write(producer, "", count);
            }
        }
        LineProtocol.say("PRODUCED", "" + count);
    }

    private static void write(KafkaProducer<String, String> producer, String mark, int count) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String value = String.format("%s%s-%06d", mark, arguments.get("prefix"), number);
            sent.add(producer.send(new ProducerRecord<>(arguments.get("topic"), value)));
        }
        for (Future<RecordMetadata> each : sent) each.get();
    }
}
