import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Java's share consumer, as a program of README.md. */
public final class ShareProgram {
    private static volatile boolean closing = false;
    private static final Set<String> renewed = new HashSet<>();

    private ShareProgram() {
    }

    public static void main(String[] args) {
        Map<String, String> arguments = Arrays.stream(args)
            .map(each -> each.split("=", 2))
            .collect(Collectors.toMap(each -> each[0], each -> each[1]));
        boolean explicit = arguments.get("acknowledge").equals("explicit");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments.get("bootstrap"));
        properties.put("group.id", arguments.get("group"));
        properties.put("share.acknowledgement.mode", arguments.get("acknowledge"));
        properties.put("max.poll.records", "40");
        properties.put("reconnect.backoff.max.ms", "200");
        listenForClose();
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, text, text)) {
            consumer.subscribe(List.of(arguments.get("topic")));
            while (!closing) {
                turn(consumer, explicit);
            }
        }
        say("CLOSED");
    }

    private static void turn(KafkaShareConsumer<String, String> consumer, boolean explicit) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) return;
        List<String> ended = new ArrayList<>();
        List<ConsumerRecord<String, String>> renewals = new ArrayList<>();
        for (ConsumerRecord<String, String> record : records) {
            AcknowledgeType type = explicit ? type(record) : taken(record);
            if (type == AcknowledgeType.RENEW) renewals.add(record);
            else if (explicit) consumer.acknowledge(record, type);
            if (type == AcknowledgeType.ACCEPT || type == AcknowledgeType.REJECT) ended.add(record.value());
        }
        say("SENT", String.join(",", ended));
        commit(consumer, ended);
        // By themselves: of one commit to two brokers, the last response decides in this client whether any record was
        // renewed (ResultHandler.complete). If that broker had none to renew, poll returns nothing for ever.
        renewals.forEach(record -> consumer.acknowledge(record, AcknowledgeType.RENEW));
        if (!renewals.isEmpty()) commit(consumer, List.of());
    }

    private static void commit(KafkaShareConsumer<String, String> consumer, List<String> ended) {
        try {
            Optional<KafkaException> failure = failure(consumer.commitSync(Duration.ofSeconds(20)));
            if (failure.isPresent()) say("FAILED", failure.get().toString());
            else say("DONE", String.join(",", ended));
        } catch (KafkaException failure) {
            say("FAILED", failure.toString());
        }
    }

    private static Optional<KafkaException> failure(Map<TopicIdPartition, Optional<KafkaException>> results) {
        return results.values().stream().flatMap(Optional::stream).findFirst();
    }

    /** What to do with a record; a poll also returns the records whose lock was renewed since the one before. */
    private static AcknowledgeType type(ConsumerRecord<String, String> record) {
        int number = Integer.parseInt(record.value());
        short count = record.deliveryCount().orElseThrow();
        String delivery = record.partition() + ":" + record.offset() + ":" + count;
        if (renewed.remove(delivery)) {
            say("RENEWED", record.value());
            return AcknowledgeType.ACCEPT;
        }
        taken(record);
        if (number % 5 == 0 && count == 1) return AcknowledgeType.RELEASE;
        if (number % 7 == 0) return AcknowledgeType.REJECT;
        if (number % 11 != 0) return AcknowledgeType.ACCEPT;
        renewed.add(delivery);
        return AcknowledgeType.RENEW;
    }

    private static AcknowledgeType taken(ConsumerRecord<String, String> record) {
        say("RECORD", String.valueOf(record.partition()), String.valueOf(record.offset()), record.value());
        return AcknowledgeType.ACCEPT;
    }

    private static void listenForClose() {
        Thread listening = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                String line = lines.readLine();
                while (line != null && !line.equals("close")) line = lines.readLine();
            } catch (java.io.IOException ended) {
                say("FAILED", ended.toString());
            }
            closing = true;
        });
        listening.setDaemon(true);
        listening.start();
    }

    private static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }
}
