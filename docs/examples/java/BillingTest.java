import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Verbs and faults of a coordinatord over HTTP, from JUnit 5. */
class BillingTest {
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(20);

    @RegisterExtension
    final Coordinatord kafka = new Coordinatord();

    @Test
    void aCommitIsTriedAgain() throws Exception {
        send("coffee");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            assertEquals("coffee", next(consumer));
            Map<String, Object> twice = Map.of("error", "COORDINATOR_LOAD_IN_PROGRESS", "times", 2);
            try (Coordinatord.Fault fault = kafka.fault("fail", "OffsetCommit", twice)) {
                consumer.commitSync();
                assertEquals(2, fault.hits());
            }
        }
    }

    @Test
    void anExpelledMemberComesBack() throws Exception {
        send("coffee");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            next(consumer);
            String expired = kafka.ask("POST", "/groups/billing/members/a/expire", Map.of());
            String gone = Coordinatord.first(expired, "\"member_id\":\\s*\"([^\"]+)\"");
            String told;
            long ends = System.nanoTime() + WAIT_NS;
            do {
                consumer.poll(Duration.ofMillis(100));
                told = kafka.ask("GET", "/groups/billing", Map.of());
            } while ((!told.contains("\"Stable\"") || member(told).equals(gone)) && System.nanoTime() < ends);
            assertNotEquals(gone, member(told));
        }
    }

    @Test
    void offsetsExpire() throws Exception {
        send("coffee");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            next(consumer);
            consumer.commitSync();
        }
        kafka.ask("POST", "/clock/advance", Map.of("by_ms", Duration.ofDays(8).toMillis()));
        try (KafkaConsumer<String, String> consumer = consumer()) {
            assertEquals("coffee", next(consumer)); // the group begins anew
        }
    }

    private static String member(String group) {
        return Coordinatord.first(group, "\"members\":\\s*\\[\\s*\\{\\s*\"member_id\":\\s*\"([^\"]+)\"");
    }

    private void send(String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", kafka.bootstrapServers());
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            producer.send(new ProducerRecord<>("orders", value)).get(10, TimeUnit.SECONDS);
        }
    }

    private KafkaConsumer<String, String> consumer() {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", kafka.bootstrapServers(),
                "client.id", "a",
                "group.id", "billing",
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "heartbeat.interval.ms", "100",
                "fetch.max.wait.ms", "50");
        StringDeserializer text = new StringDeserializer();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text);
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    private static String next(KafkaConsumer<String, String> consumer) {
        long ends = System.nanoTime() + WAIT_NS;
        while (System.nanoTime() < ends) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                return record.value();
            }
        }
        throw new AssertionError("no record in time");
    }
}
