package org.apache.kafka.common.test;

import kafka.server.BrokerServer;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

import suites.Daemon;

/**
 * Takes the place of Kafka's class of this name for the `EmbeddedKafkaCluster` of Kafka Streams' tests: one coordinatord,
 * whatever number of brokers the test names. It has the methods that `EmbeddedKafkaCluster` calls.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private static final int BROKER = 0;

    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> properties = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            properties.put(key, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() {
            properties.putAll(nodes.brokerNodes().get(BROKER).propertyOverrides());
            properties.put("node.id", String.valueOf(BROKER));
            String listener = nodes.brokerListenerName().value();
            return new KafkaClusterTestKit(new Daemon(properties, listener, nodes.brokerListenerProtocol().name));
        }
    }

    private final Daemon daemon;
    private final MockFaultHandler faults = new MockFaultHandler("nonFatalFaultHandler");

    private KafkaClusterTestKit(Daemon daemon) {
        this.daemon = daemon;
    }

    public void format() {
    }

    public void startup() {
        daemon.start();
    }

    public void waitForReadyBrokers() {
    }

    public String bootstrapServers() {
        return "localhost:" + daemon.port;
    }

    /** Only its size is read, which limits the replicas of a topic. */
    public Map<Integer, BrokerServer> brokers() {
        return Collections.singletonMap(BROKER, null);
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() {
        daemon.stop();
        daemon.removeDirectory();
    }
}
