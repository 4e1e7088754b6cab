import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Read, process, write with Java's client: what is read from one topic is written to another, exactly once.
 *
 * <pre>java ExactlyOnce BOOTSTRAP GROUP TRANSACTIONAL_ID INPUT OUTPUT classic|consumer</pre>
 *
 * It runs until it is killed. What cannot be aborted ends it with code 3; whoever supervises it starts it again.
 */
public final class ExactlyOnce {
    private ExactlyOnce() {
    }

    public static void main(String[] args) throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(args[0], args[2]);
                KafkaConsumer<String, String> consumer = consumer(args[0], args[1], args[5])) {
            producer.initTransactions();
            consumer.subscribe(List.of(args[3]));
            System.out.println("ready");
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    process(consumer, producer, records, args[4]);
                    Thread.sleep(20);
                }
            }
        } catch (KafkaException failure) {
            System.out.println("failed: " + failure);
            System.exit(3);
        }
    }

    private static void process(
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records,
            String target) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException failure) {
            System.out.println("failed: " + failure);
            producer.abortTransaction();
            rewind(consumer);
        }
    }

    /** What was not committed is read again. */
    private static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", transactionalId);
        properties.put("transaction.timeout.ms", "30000");
        properties.put("max.block.ms", "20000");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        return new KafkaProducer<>(properties);
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group, String protocol) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("isolation.level", "read_committed");
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            properties.put("session.timeout.ms", "3000");
            properties.put("heartbeat.interval.ms", "500");
        }
        properties.put("max.poll.records", "20");
        properties.put("default.api.timeout.ms", "20000");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        return new KafkaConsumer<>(properties);
    }
}
