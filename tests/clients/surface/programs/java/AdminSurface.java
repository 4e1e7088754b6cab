import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Topics, settings, offsets, transactions. */
final class AdminSurface extends Names {
    private AdminSurface() {}

    static void topics(Surface part, Admin admin) throws Exception {
        NewTopic plain = new NewTopic(one, 2, (short) 1);
        part.run("createTopics", "", () -> admin.createTopics(List.of(
            plain,
            new NewTopic(two, 1, (short) 1).configs(Map.of("retention.ms", "86400000")),
            new NewTopic(three, Map.of(0, List.of(0))))));
        part.run("createTopics", "exists", () -> admin.createTopics(List.of(plain)));
        part.run("createTopics", "a bad name", () -> admin.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))));
        part.run("createTopics", "refused", () -> admin.createTopics(List.of(
            new NewTopic(absent, 1, (short) 3),
            new NewTopic(nobody, 0, (short) 1),
            new NewTopic(other, 1, (short) 1).configs(Map.of("retention.ms", "soon")))));
        part.run("createTopics", "defaults, validated", () -> admin.createTopics(
            List.of(new NewTopic(absent, Optional.empty(), Optional.empty())), new CreateTopicsOptions().validateOnly(true)));
        Surface.until(() -> admin.listTopics().names().get().containsAll(List.of(one, two, three)));
        part.run("listTopics", "", () -> mine(admin.listTopics().listings().get(10, SECONDS)));
        part.run("createPartitions", "", () -> admin.createPartitions(Map.of(two, NewPartitions.increaseTo(3))));
        part.run("createPartitions", "refused", () -> admin.createPartitions(
            Map.of(two, NewPartitions.increaseTo(1), absent, NewPartitions.increaseTo(3))));
        Surface.until(() -> admin.describeTopics(List.of(two)).allTopicNames().get().get(two).partitions().size() == 3);
        part.run("describeTopics(Collection)", "", () -> admin.describeTopics(
            List.of(one, two), new DescribeTopicsOptions().includeAuthorizedOperations(true)));
        part.run("describeTopics(Collection)", "some at a time", () -> admin.describeTopics(
            List.of(one, two), new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)));
        part.run("describeTopics(Collection)", "no such topic", () -> admin.describeTopics(List.of(absent)));
        Uuid id = admin.describeTopics(List.of(one)).allTopicNames().get().get(one).topicId();
        part.run("describeTopics(TopicCollection)", "", () -> {
            Object shape = Shape.of(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get());
            return ((Map<?, ?>) shape).values();
        });
        part.run("describeTopics(TopicCollection)", "no such id", () -> admin
            .describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(1, 1)))).allTopicIds().get());
        configs(part, admin);
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static Map<ConfigResource, Collection<AlterConfigOp>> change(
            ConfigResource resource, String name, String value, AlterConfigOp.OpType how) {
        return Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), how)));
    }

    private static void configs(Surface part, Admin admin) throws Exception {
        DescribeConfigsOptions full = new DescribeConfigsOptions().includeSynonyms(true);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "0");
        ConfigResource ofGroup = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, Surface.named("metrics"));
        part.run("describeConfigs", "", () -> admin.describeConfigs(List.of(topic(one)), full));
        part.run("describeConfigs", "no such topic", () -> admin.describeConfigs(List.of(topic(absent))));
        part.run("describeConfigs", "of a broker", () -> admin.describeConfigs(List.of(broker)));
        part.run("describeConfigs", "of a group", () -> admin.describeConfigs(List.of(ofGroup)));
        part.run("describeConfigs", "of a broker's loggers", () -> admin.describeConfigs(
            List.of(new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "0"))));
        part.run("describeConfigs", "of client metrics", () -> admin.describeConfigs(List.of(metrics)));
        AlterConfigOp.OpType set = AlterConfigOp.OpType.SET;
        Map<String, Map<ConfigResource, Collection<AlterConfigOp>>> changes = new java.util.TreeMap<>(Map.of(
            "", change(topic(two), "retention.ms", "172800000", set),
            "append", change(topic(two), "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND),
            "subtract", change(topic(two), "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT),
            "delete", change(topic(three), "retention.ms", null, AlterConfigOp.OpType.DELETE),
            "a bad value", change(topic(two), "retention.ms", "soon", set),
            "unknown", change(topic(two), "no.such.config", "1", set),
            "no such topic", change(topic(absent), "retention.ms", "1000", set),
            "of a group", change(ofGroup, "consumer.session.timeout.ms", "50000", set),
            "of a broker", change(broker, "log.cleaner.threads", "2", set)));
        changes.forEach((text, each) -> part.run("incrementalAlterConfigs", text, () -> admin.incrementalAlterConfigs(each)));
        part.run("incrementalAlterConfigs", "validated", () -> admin.incrementalAlterConfigs(
            change(topic(two), "retention.ms", "1000", set), new AlterConfigsOptions().validateOnly(true)));
        Callable<String> policy = () -> admin.describeConfigs(List.of(topic(two))).all().get().get(topic(two)).get("cleanup.policy").value();
        Surface.until(() -> policy.call().equals("compact"));
        part.run("describeConfigs", "altered", () -> admin.describeConfigs(List.of(topic(two)), full));
        part.run("listConfigResources()", "", () -> mine(admin.listConfigResources().all().get(10, SECONDS)));
        part.run("listConfigResources(Set)", "", () -> mine(admin
            .listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all().get(10, SECONDS)));
        part.run("listClientMetricsResources", "", () -> admin.listClientMetricsResources());
    }

    static void offsets(Surface part, Admin admin) {
        Admin soon = KafkaSurface.impatient();
        part.run("listOffsets", "earliest", () -> admin.listOffsets(Map.of(first, OffsetSpec.earliest())).all().get());
        part.run("listOffsets", "latest", () -> admin.listOffsets(Map.of(first, OffsetSpec.latest())).all().get());
        part.run("listOffsets", "at a time", () -> admin.listOffsets(Map.of(first, OffsetSpec.forTimestamp(Surface.timeMs(1)))).all().get());
        part.run("listOffsets", "greatest time", () -> admin.listOffsets(Map.of(first, OffsetSpec.maxTimestamp())).all().get());
        part.run("listOffsets", "earliest here", () -> admin.listOffsets(Map.of(first, OffsetSpec.earliestLocal())).all().get());
        part.run("listOffsets", "latest elsewhere", () -> admin.listOffsets(Map.of(first, OffsetSpec.latestTiered())).all().get());
        part.run("listOffsets", "earliest to be uploaded", () -> admin
            .listOffsets(Map.of(first, OffsetSpec.earliestPendingUpload())).all().get());
        Map<TopicPartition, OffsetAndMetadata> at = Map.of(first, new OffsetAndMetadata(1, Optional.of(0), "why"));
        part.run("alterConsumerGroupOffsets", "", () -> admin.alterConsumerGroupOffsets(group, at));
        part.run("alterConsumerGroupOffsets", "another group", () -> admin.alterConsumerGroupOffsets(other, at));
        part.run("alterConsumerGroupOffsets", "no such topic", () -> admin
            .alterConsumerGroupOffsets(group, Map.of(missing, new OffsetAndMetadata(1))));
        part.run("listConsumerGroupOffsets(String)", "", () -> admin.listConsumerGroupOffsets(group).all().get());
        part.run("listConsumerGroupOffsets(String)", "no such group", () -> admin.listConsumerGroupOffsets(nobody).all().get());
        ListConsumerGroupOffsetsSpec some = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(first, second, missing));
        part.run("listConsumerGroupOffsets(Map)", "", () -> admin
            .listConsumerGroupOffsets(Map.of(group, some, other, new ListConsumerGroupOffsetsSpec())).all().get());
        part.run("deleteConsumerGroupOffsets", "", () -> admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
        part.run("deleteConsumerGroupOffsets", "no such topic", () -> admin
            .deleteConsumerGroupOffsets(group, Set.of(missing)).partitionResult(missing).get());
        part.run("deleteConsumerGroupOffsets", "no such group", () -> admin.deleteConsumerGroupOffsets(nobody, Set.of(first)).all().get());
        part.run("deleteRecords", "", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1))));
        part.run("deleteRecords", "past the end", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1_000))));
        part.run("deleteRecords", "no such topic", () -> soon.deleteRecords(Map.of(missing, RecordsToDelete.beforeOffset(1))));
    }

    static void transactions(Surface part, Admin admin) throws Exception {
        String id = Surface.named("open");
        KafkaProducer<String, String> producer = KafkaSurface.producer(Map.of("transactional.id", id));
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(one, 1, Surface.timeMs(0), null, "value")).get(10, SECONDS);
        part.run("describeProducers", "", () -> admin.describeProducers(List.of(second)).all().get());
        Admin soon = KafkaSurface.impatient();
        part.run("describeProducers", "no such topic", () -> soon.describeProducers(List.of(missing)).all().get());
        part.run("describeTransactions", "", () -> admin.describeTransactions(List.of(id)).all().get());
        part.run("describeTransactions", "no such id", () -> admin.describeTransactions(List.of(nobody)).all().get());
        part.run("listTransactions", "", () -> mine(admin.listTransactions().all().get(10, SECONDS)));
        var state = admin.describeProducers(List.of(second)).partitionResult(second).get().activeProducers().get(0);
        part.run("abortTransaction", "", () -> admin.abortTransaction(
            new AbortTransactionSpec(second, state.producerId(), (short) state.producerEpoch(), 0)));
        part.run("abortTransaction", "no such topic", () -> soon.abortTransaction(
            new AbortTransactionSpec(missing, state.producerId(), (short) state.producerEpoch(), 0)));
        part.run("fenceProducers", "", () -> {
            KafkaFuture<Void> fenced = admin.fenceProducers(List.of(id)).all();
            return fenced.get(10, SECONDS);
        });
        part.run("forceTerminateTransaction", "", () -> admin.forceTerminateTransaction(id).result().get(10, SECONDS));
        producer.close(java.time.Duration.ZERO);
    }

    static void removals(Surface part, Admin admin) {
        part.run("deleteConsumerGroups", "", () -> admin.deleteConsumerGroups(List.of(group, other)));
        part.run("deleteConsumerGroups", "no such group", () -> admin.deleteConsumerGroups(List.of(nobody)));
        part.run("deleteTopics(Collection)", "", () -> admin.deleteTopics(List.of(two)));
        part.run("deleteTopics(Collection)", "no such topic", () -> admin.deleteTopics(List.of(absent)));
        part.run("deleteTopics(TopicCollection)", "", () -> {
            Uuid id = admin.describeTopics(List.of(three)).allTopicNames().get().get(three).topicId();
            return admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        });
        part.run("deleteTopics(TopicCollection)", "no such id", () -> admin
            .deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(1, 1)))).all().get());
        part.local("closes connections", "close");
    }
}
