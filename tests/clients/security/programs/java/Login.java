import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** Kafka's own client. Arguments: NAME=VALUE, as in README.md. */
public class Login {
    static Properties options = new Properties();

    public static class Token implements AuthenticateCallbackHandler {
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) { }

        public void close() { }

        public void handle(Callback[] callbacks) {
            long now = System.currentTimeMillis();
            for (Callback each : callbacks)
                if (each instanceof OAuthBearerTokenCallback)
                    ((OAuthBearerTokenCallback) each).token(new OAuthBearerToken() {
                        public String value() { return System.getProperty("token"); }
                        public Set<String> scope() { return Set.of(); }
                        public long lifetimeMs() { return now + 3_600_000; }
                        public String principalName() { return "alice"; }
                        public Long startTimeMs() { return now; }
                    });
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties told = new Properties();
        for (String each : arguments) {
            int sign = each.indexOf('=');
            told.put(each.substring(0, sign), each.substring(sign + 1));
        }
        try {
            System.out.println("ok " + logIn(told));
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println("failed " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
            error.printStackTrace();
        }
        System.exit(0);
    }

    static String logIn(Properties told) throws Exception {
        int timeoutMs = (int) (Double.parseDouble(told.getProperty("timeout_s")) * 1000);
        options.put("bootstrap.servers", told.getProperty("bootstrap"));
        options.put("security.protocol", told.getProperty("protocol"));
        options.put("ssl.truststore.type", "PEM");
        options.put("ssl.truststore.location", told.getProperty("ca"));
        options.put("max.block.ms", timeoutMs);
        options.put("default.api.timeout.ms", timeoutMs);
        options.put("request.timeout.ms", timeoutMs / 2);
        options.put("delivery.timeout.ms", timeoutMs);
        if (told.containsKey("key")) {
            options.put("ssl.keystore.type", "PEM");
            options.put("ssl.keystore.location", told.getProperty("key"));
        }
        if (told.containsKey("mechanism"))
            mechanism(told);
        for (String name : List.of("key", "value")) {
            options.put(name + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            options.put(name + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        String topic = told.getProperty("topic");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(options)) {
            producer.send(new ProducerRecord<>(topic, "hello")).get(timeoutMs, TimeUnit.MILLISECONDS);
        }
        options.put("group.id", told.getProperty("group"));
        options.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options)) {
            consumer.subscribe(List.of(topic));
            for (long ends = System.currentTimeMillis() + timeoutMs; System.currentTimeMillis() < ends; )
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    consumer.commitSync();
                    return record.value();
                }
        }
        throw new IllegalStateException("nothing was read");
    }

    static void mechanism(Properties told) {
        String mechanism = told.getProperty("mechanism"), common = "org.apache.kafka.common.security.";
        options.put("sasl.mechanism", mechanism);
        if (mechanism.equals("OAUTHBEARER")) {
            System.setProperty("token", told.getProperty("token"));
            options.put("sasl.login.callback.handler.class", Token.class.getName());
            options.put("sasl.jaas.config", common + "oauthbearer.OAuthBearerLoginModule required;");
            return;
        }
        String module = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
        options.put("sasl.jaas.config", common + module + "LoginModule required username=\""
            + told.getProperty("user") + "\" password=\"" + told.getProperty("password") + "\";");
    }
}
