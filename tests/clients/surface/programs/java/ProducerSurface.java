import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** KafkaProducer, idempotent as by default, and transactional. */
final class ProducerSurface extends Names {
    private ProducerSurface() {}

    private static ProducerRecord<String, String> record(int partition, int number) {
        return new ProducerRecord<>(one, partition, Surface.timeMs(number), "key", "value-" + number);
    }

    static void run() throws Exception {
        Surface part = new Surface("producer", Producer.class);
        part.local("metrics of the process", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription");
        KafkaProducer<String, String> producer = KafkaSurface.producer(Map.of());
        part.run("send(ProducerRecord)", "", () -> producer.send(record(0, 0)).get(10, SECONDS));
        part.run("send(ProducerRecord)", "no such partition", () -> producer.send(record(9, 0)).get(10, SECONDS));
        part.run("send(ProducerRecord, Callback)", "", () -> {
            CompletableFuture<RecordMetadata> told = new CompletableFuture<>();
            producer.send(record(0, 1), (metadata, error) -> told.complete(metadata));
            return told.get(10, SECONDS);
        });
        for (String codec : new String[] {"gzip", "snappy", "lz4", "zstd"}) {
            KafkaProducer<String, String> packing = KafkaSurface.producer(Map.of("compression.type", codec));
            part.run("send(ProducerRecord)", codec, () -> packing.send(record(0, 2)).get(10, SECONDS));
            packing.close();
        }
        part.call("flush", "", () -> {
            producer.send(record(0, 3));
            producer.flush();
        });
        part.run("partitionsFor", "", () -> producer.partitionsFor(one));
        part.run("clientInstanceId", "", () -> producer.clientInstanceId(Surface.SHORT));
        part.call("close", "", producer::close);
        transactions(part);
        part.end();
    }

    private static void transactions(Surface part) throws Exception {
        KafkaProducer<String, String> producer = KafkaSurface.producer(Map.of("transactional.id", Surface.named("txn")));
        Map<org.apache.kafka.common.TopicPartition, OffsetAndMetadata> at = Map.of(first, new OffsetAndMetadata(1));
        part.call("initTransactions", "", producer::initTransactions);
        part.call("beginTransaction", "", producer::beginTransaction);
        part.run("send(ProducerRecord)", "in a transaction", () -> producer.send(record(0, 4)).get(10, SECONDS));
        part.call("sendOffsetsToTransaction", "", () -> producer.sendOffsetsToTransaction(at, new ConsumerGroupMetadata(group)));
        part.call("commitTransaction", "", producer::commitTransaction);
        part.call("beginTransaction", "again", producer::beginTransaction);
        part.run("send(ProducerRecord)", "in a transaction that is aborted", () -> producer.send(record(0, 5)).get(10, SECONDS));
        part.call("abortTransaction", "", producer::abortTransaction);
        part.call("beginTransaction", "of a stranger", producer::beginTransaction);
        ConsumerGroupMetadata stranger = new ConsumerGroupMetadata(group, 7, nobody, java.util.Optional.empty());
        part.call("sendOffsetsToTransaction", "of a stranger", () -> producer.sendOffsetsToTransaction(at, stranger));
        part.call("abortTransaction", "of a stranger", producer::abortTransaction);
        KafkaProducer<String, String> later = KafkaSurface.producer(Map.of("transactional.id", Surface.named("txn")));
        later.initTransactions();
        part.call("beginTransaction", "of one that is fenced", producer::beginTransaction);
        part.run("send(ProducerRecord)", "of one that is fenced", () -> producer.send(record(0, 6)).get(10, SECONDS));
        part.call("commitTransaction", "of one that is fenced", producer::commitTransaction);
        producer.close(java.time.Duration.ZERO);
        later.close();
    }
}
