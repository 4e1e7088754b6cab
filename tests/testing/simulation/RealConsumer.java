import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What real_consumer.py is, with the Java client: TOPIC, then settings as name=value. */
public final class RealConsumer {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static volatile boolean stopped = false;
    private static volatile boolean asked = false;

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "latest");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], ASSIGNORS.getOrDefault(pair[1], pair[1]));
        }
        warmUp(args[0], properties);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties);
        consumer.partitionsFor(args[0]); // as kafka-python's, it knows the broker before it joins
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        tell("ready", "");
        lines.readLine();
        consumer.subscribe(List.of(args[0]), new Listener(consumer));
        Thread listener = new Thread(() -> listen(lines, consumer));
        listener.setDaemon(true);
        listener.start();
        while (!stopped) turn(consumer);
        tell("revoked", partitions(consumer.assignment()));
        consumer.close();
        Runtime.getRuntime().halt(0);
    }

    /** Joins and leaves a group of its own: a JVM takes half a second for the first time, which would count otherwise. */
    private static void warmUp(String topic, Properties properties) {
        Properties own = new Properties();
        own.putAll(properties);
        own.remove("group.instance.id");
        own.put("group.id", "warm-up-" + java.util.UUID.randomUUID());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(own)) {
            consumer.subscribe(List.of(topic));
            while (consumer.assignment().isEmpty()) consumer.poll(Duration.ofMillis(100));
            partitions(consumer.assignment());
        }
    }

    private static void turn(KafkaConsumer<String, String> consumer) throws InterruptedException {
        try {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMinutes(10))) {
                Thread.sleep(Long.parseLong(each.value()));
            }
        } catch (WakeupException woken) {
            if (asked) tell("generation", ",\"generation\":" + consumer.groupMetadata().generationId());
            asked = false;
        }
    }

    private static void listen(BufferedReader lines, KafkaConsumer<String, String> consumer) {
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                asked = line.equals("generation");
                stopped = line.equals("stop");
                consumer.wakeup();
            }
        } catch (java.io.IOException gone) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static String partitions(Collection<TopicPartition> all) {
        return ",\"partitions\":[" + all.stream().map(each -> "" + each.partition()).collect(Collectors.joining(",")) + "]";
    }

    private static synchronized void tell(String kind, String fields) {
        double at = System.currentTimeMillis() / 1000.0;
        System.out.println("{\"kind\":\"" + kind + "\",\"at_s\":" + at + fields + "}");
        System.out.flush();
    }

    private static final class Listener implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;

        Listener(KafkaConsumer<String, String> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            tell("assigned", partitions(added) + ",\"generation\":" + consumer.groupMetadata().generationId());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            tell("revoked", partitions(gone));
        }
    }
}
