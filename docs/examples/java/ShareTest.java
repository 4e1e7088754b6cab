import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A share consumer that loses its lock, without a wait of thirty seconds. */
class ShareTest {
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(60);

    @RegisterExtension
    final Coordinatord kafka = new Coordinatord();

    @Test
    void aLockExpires() throws Exception {
        configure("share.auto.offset.reset", "earliest");
        send("coffee");
        Map<String, Object> settings = Map.of("bootstrap.servers", kafka.bootstrapServers(), "client.id", "a",
                "group.id", "pickers", "share.acknowledgement.mode", "explicit");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecord<String, String> first = next(consumer);
            assertTrue(group().contains("\"delivery_count\": 1"), group());
            kafka.ask("POST", "/clock/advance", Map.of("by_ms", Duration.ofSeconds(30).toMillis()));
            assertTrue(group().contains("lock expired"), group());
            consumer.acknowledge(first);
            consumer.commitSync();
            ConsumerRecord<String, String> again = next(consumer);
            assertEquals((short) 2, again.deliveryCount().orElseThrow());
            consumer.acknowledge(again);
            consumer.commitSync();
            assertEquals("1", Coordinatord.first(group(), "\"acknowledged\":\\s*(\\d+)"));
        }
    }

    private String group() throws Exception {
        return kafka.ask("GET", "/share-groups/pickers", Map.of());
    }

    private void configure(String name, String value) throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "pickers");
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", kafka.bootstrapServers()))) {
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get(10, TimeUnit.SECONDS);
        }
    }

    private void send(String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", kafka.bootstrapServers());
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            producer.send(new ProducerRecord<>("orders", value)).get(10, TimeUnit.SECONDS);
        }
    }

    private static ConsumerRecord<String, String> next(KafkaShareConsumer<String, String> consumer) {
        long ends = System.nanoTime() + WAIT_NS;
        while (System.nanoTime() < ends) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                return record;
            }
        }
        throw new AssertionError("no record in time");
    }
}
