import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own client: Admin, KafkaProducer, KafkaConsumer with the classic protocol. */
final class KafkaSurface extends Names {
    private KafkaSurface() {}

    public static void main(String[] args) throws Exception {
        Surface.start(args);
        naming();
        try (Admin admin = Admin.create(properties(Map.of()))) {
            Surface part = new Surface("admin", Admin.class);
            AdminSurface.topics(part, admin);
            ProducerSurface.run();
            AdminSurface.offsets(part, admin);
            ConsumerSurface.run(part, admin);
            AdminSurface.transactions(part, admin);
            OtherSurface.groups(part, admin);
            OtherSurface.security(part, admin);
            OtherSurface.cluster(part, admin);
            AdminSurface.removals(part, admin);
            part.end();
        }
        System.exit(0);
    }

    static Properties properties(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("bootstrap.servers", Surface.arguments.get("bootstrap"));
        all.put("client.id", Surface.arguments.get("prefix"));
        all.putIfAbsent("default.api.timeout.ms", "10000");
        all.putIfAbsent("request.timeout.ms", "5000");
        Properties properties = new Properties();
        properties.putAll(all);
        return properties;
    }

    /** For calls that are tried again until their time is over. */
    static Admin impatient() {
        return Admin.create(properties(Map.of("default.api.timeout.ms", "1500", "request.timeout.ms", "1500")));
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("max.block.ms", "3000");
        all.put("delivery.timeout.ms", "6000");
        all.put("linger.ms", "0");
        return new KafkaProducer<>(properties(all), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.putIfAbsent("allow.auto.create.topics", "false");
        return new KafkaConsumer<>(properties(all), new StringDeserializer(), new StringDeserializer());
    }
}
