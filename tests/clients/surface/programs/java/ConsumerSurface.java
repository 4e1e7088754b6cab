import static java.util.concurrent.TimeUnit.SECONDS;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;

/** KafkaConsumer by itself and in a group, with the classic protocol. */
final class ConsumerSurface extends Names {
    private static final Duration POLL = Duration.ofMillis(100);

    private ConsumerSurface() {}

    static void run(Surface admins, Admin admin) throws Exception {
        Surface part = new Surface("consumer", Consumer.class);
        KafkaConsumer<String, String> idle = KafkaSurface.consumer(Map.of());
        part.local(idle, "metrics of the process", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription");
        part.local(idle, "what it has been told", "subscription", "assignment", "paused");
        part.local(idle, "notes it for later polls", "assign", "pause", "resume", "wakeup", "seek(TopicPartition, long)",
            "seek(TopicPartition, OffsetAndMetadata)", "seekToBeginning", "seekToEnd");
        idle.close();
        alone(part);
        inGroup(part, admins, admin);
        subscriptions(part);
        part.end();
    }

    private static List<Object> polled(Consumer<String, String> consumer) {
        for (int turn = 0; turn < 50; turn++) {
            List<Object> values = new ArrayList<>();
            for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                values.add(each.partition() + " " + each.offset() + " " + each.value());
            }
            if (!values.isEmpty()) return values;
        }
        return List.of();
    }

    private static void alone(Surface part) {
        KafkaConsumer<String, String> consumer = KafkaSurface.consumer(Map.of("isolation.level", "read_committed"));
        List<TopicPartition> both = List.of(first, second);
        part.run("partitionsFor", "", () -> consumer.partitionsFor(one));
        part.run("partitionsFor", "no such topic", () -> consumer.partitionsFor(absent, Surface.SHORT));
        part.run("listTopics", "", () -> mine(consumer.listTopics().entrySet()).size());
        part.run("beginningOffsets", "", () -> consumer.beginningOffsets(both));
        part.run("endOffsets", "", () -> consumer.endOffsets(both));
        part.run("offsetsForTimes", "", () -> consumer.offsetsForTimes(Map.of(first, Surface.timeMs(1), second, Surface.timeMs(1))));
        part.run("clientInstanceId", "", () -> consumer.clientInstanceId(Surface.SHORT));
        consumer.assign(both);
        consumer.seekToBeginning(both);
        part.run("position", "the start", () -> consumer.position(first));
        consumer.seekToEnd(both);
        part.run("position", "the end", () -> consumer.position(first));
        consumer.seek(first, 2);
        part.run("poll", "", () -> polled(consumer));
        part.run("currentLag", "", () -> consumer.currentLag(first));
        consumer.seek(first, 1_000);
        part.run("poll", "out of range", () -> polled(consumer));
        part.call("commitSync()", "without a group", consumer::commitSync);
        part.call("close", "without a group", consumer::close);
    }

    private static void inGroup(Surface part, Surface admins, Admin admin) {
        String members = Surface.named("members"), instance = Surface.named("instance");
        KafkaConsumer<String, String> consumer = KafkaSurface.consumer(Map.of(
            "group.id", members, "group.instance.id", instance, "heartbeat.interval.ms", "300"));
        part.run("subscribe(Collection)", "", () -> {
            consumer.subscribe(List.of(one));
            return polled(consumer);
        });
        part.run("groupMetadata", "", () -> {
            var metadata = consumer.groupMetadata();
            return List.of(metadata.groupId(), metadata.generationId(), metadata.groupInstanceId());
        });
        part.call("commitSync()", "", consumer::commitSync);
        OffsetAndMetadata at = new OffsetAndMetadata(1, Optional.of(0), "why");
        part.call("commitSync(Map)", "", () -> consumer.commitSync(Map.of(first, at)));
        part.call("commitSync(Map)", "no such topic", () -> consumer.commitSync(Map.of(missing, at), Surface.SHORT));
        part.call("commitAsync()", "", () -> {
            consumer.commitAsync();
            consumer.commitSync();
        });
        part.run("commitAsync(OffsetCommitCallback)", "", () -> {
            CompletableFuture<Object> told = new CompletableFuture<>();
            consumer.commitAsync((offsets, error) -> told.complete(error == null ? offsets : error));
            consumer.commitSync();
            return told.get(10, SECONDS);
        });
        part.run("commitAsync(Map, OffsetCommitCallback)", "", () -> {
            CompletableFuture<Object> told = new CompletableFuture<>();
            consumer.commitAsync(Map.of(second, at), (offsets, error) -> told.complete(error == null ? offsets : error));
            consumer.commitSync(Map.of(first, at));
            return told.get(10, SECONDS);
        });
        part.run("committed", "", () -> consumer.committed(Set.of(first, second, missing)));
        admins.run("describeConsumerGroups", "with a member", () -> admin.describeConsumerGroups(List.of(members)).all().get());
        admins.run("describeClassicGroups", "with a member", () -> admin.describeClassicGroups(List.of(members)).all().get());
        admins.run("deleteConsumerGroups", "with a member", () -> admin.deleteConsumerGroups(List.of(members)).all().get());
        admins.run("deleteConsumerGroupOffsets", "of a member's topic", () -> admin
            .deleteConsumerGroupOffsets(members, Set.of(first)).partitionResult(first).get());
        admins.run("alterConsumerGroupOffsets", "with a member", () -> admin
            .alterConsumerGroupOffsets(members, Map.of(first, at)).all().get());
        part.call("enforceRebalance()", "", () -> rejoined(consumer, consumer::enforceRebalance));
        part.call("enforceRebalance(String)", "", () -> rejoined(consumer, () -> consumer.enforceRebalance("because")));
        part.call("unsubscribe", "", consumer::unsubscribe);
        RemoveMembersFromConsumerGroupOptions gone =
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(instance)));
        admins.run("removeMembersFromConsumerGroup", "", () -> admin.removeMembersFromConsumerGroup(members, gone).all().get());
        admins.run("removeMembersFromConsumerGroup", "no such member", () -> admin
            .removeMembersFromConsumerGroup(members, gone).all().get());
        part.call("close", "", consumer::close);
    }

    private static void rejoined(Consumer<String, String> consumer, Runnable ask) throws Exception {
        int before = consumer.groupMetadata().generationId();
        ask.run();
        Surface.until(() -> {
            consumer.poll(POLL);
            return consumer.groupMetadata().generationId() > before;
        });
    }

    private static void subscriptions(Surface part) {
        KafkaConsumer<String, String> listening = member("listening");
        part.run("subscribe(Collection, ConsumerRebalanceListener)", "", () -> {
            List<Object> heard = new ArrayList<>();
            listening.subscribe(List.of(one), new ConsumerRebalanceListener() {
                @Override public void onPartitionsAssigned(java.util.Collection<TopicPartition> assigned) {
                    heard.add("assigned " + new java.util.TreeSet<>(assigned.stream().map(String::valueOf).toList()));
                }

                @Override public void onPartitionsRevoked(java.util.Collection<TopicPartition> revoked) {}
            });
            polled(listening);
            return heard;
        });
        part.call("close", "with options", () -> listening.close(
            CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)));
        Pattern pattern = Pattern.compile(Surface.named("one") + "|" + Surface.named("two"));
        KafkaConsumer<String, String> matching = member("matching");
        part.run("subscribe(Pattern)", "", () -> {
            matching.subscribe(pattern);
            polled(matching);
            return matching.assignment();
        });
        part.call("close", "subscribed by a pattern", () -> matching.close());
        KafkaConsumer<String, String> hearing = member("hearing");
        ConsumerRebalanceListener nothing = new ConsumerRebalanceListener() {
            @Override public void onPartitionsAssigned(java.util.Collection<TopicPartition> assigned) {}

            @Override public void onPartitionsRevoked(java.util.Collection<TopicPartition> revoked) {}
        };
        part.run("subscribe(Pattern, ConsumerRebalanceListener)", "", () -> {
            hearing.subscribe(pattern, nothing);
            polled(hearing);
            return hearing.assignment();
        });
        SubscriptionPattern server = new SubscriptionPattern(pattern.pattern());
        part.call("subscribe(SubscriptionPattern)", "", () -> hearing.subscribe(server));
        part.call("subscribe(SubscriptionPattern, ConsumerRebalanceListener)", "", () -> hearing.subscribe(server, nothing));
        hearing.close();
    }

    private static KafkaConsumer<String, String> member(String name) {
        return KafkaSurface.consumer(Map.of("group.id", Surface.named(name), "heartbeat.interval.ms", "300"));
    }
}
