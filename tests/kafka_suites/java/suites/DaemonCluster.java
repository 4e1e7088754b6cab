package suites;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

/**
 * The cluster of a `@ClusterTest`: one coordinatord, whatever number of brokers the test names, so topics get one
 * replica. `brokers()` and `controllers()` have stand-ins; a test that asks more of them is refused.
 */
public final class DaemonCluster implements ClusterInstance {
    private static final int BROKER = 0;
    private static final int CONTROLLER = 3000;

    private final ClusterConfig config;
    private final Type type;
    private final Daemon daemon;
    private final StandIns standIns = new StandIns(this);
    private final KafkaConfig kafkaConfig;
    private boolean started;
    private boolean stopped;
    private Admin admin;
    private volatile LooksIntoBroker refused;

    public DaemonCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
        Map<String, String> properties = new HashMap<>(config.serverProperties());
        properties.putAll(config.perServerOverrideProperties().getOrDefault(BROKER, Map.of()));
        properties.put("node.id", String.valueOf(BROKER));
        properties.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152"); // as Kafka's KafkaClusterTestKit
        String listener = config.brokerListenerName().value();
        if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            properties.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            properties.putIfAbsent("authorizer.class.name", StandardAuthorizer.class.getName());
            properties.putIfAbsent(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, "false");
            properties.putIfAbsent(StandardAuthorizer.SUPER_USERS_CONFIG, "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
            properties.putIfAbsent("listener.name." + listener.toLowerCase() + ".plain.sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=\"%s\" user_%s=\"%s\";",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
                JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD));
        }
        daemon = new Daemon(properties, listener, config.brokerSecurityProtocol().name);
        kafkaConfig = kafkaConfig(properties, listener);
    }

    /** The same settings as an object, for tests that read them. */
    private KafkaConfig kafkaConfig(Map<String, String> properties, String listener) {
        Map<String, String> all = new HashMap<>(properties);
        all.put("process.roles", "broker,controller");
        all.put("controller.listener.names", "CONTROLLER");
        all.put("controller.quorum.voters", BROKER + "@localhost:1");
        all.put("listeners", listener + "://localhost:" + port() + ",CONTROLLER://localhost:1");
        all.put("listener.security.protocol.map",
            listener + ":" + config.brokerSecurityProtocol().name + ",CONTROLLER:PLAINTEXT");
        all.put("inter.broker.listener.name", listener);
        all.put("log.dirs", daemon.dataDirectory().toString());
        all.put("unstable.api.versions.enable", "false"); // released versions alone are served
        all.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
        return new KafkaConfig(all, false);
    }

    LooksIntoBroker refuse(String what) {
        if (refused == null) refused = new LooksIntoBroker(what);
        return refused;
    }

    /** What a test wanted that a process apart does not have; null if nothing. */
    public LooksIntoBroker refused() {
        return refused;
    }

    int port() {
        return daemon.port;
    }

    int brokerId() {
        return BROKER;
    }

    boolean isRunning() {
        return daemon.isRunning();
    }

    // What the stand-ins ask the daemon.

    private synchronized Admin asked() {
        if (admin == null) admin = admin(Map.of(AdminClientConfig.CLIENT_ID_CONFIG, "suites"));
        return admin;
    }

    private static <T> T get(org.apache.kafka.common.KafkaFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException cause) throw cause;
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    Optional<TopicDescription> topic(String name) {
        try {
            return Optional.of(get(asked().describeTopics(List.of(name)).topicNameValues().get(name)));
        } catch (UnknownTopicOrPartitionException e) {
            return Optional.empty();
        }
    }

    Map<String, Uuid> topicIds() {
        var options = new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true);
        return get(asked().listTopics(options).listings()).stream()
            .collect(Collectors.toMap(TopicListing::name, TopicListing::topicId));
    }

    // ClusterInstance

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return Map.of(BROKER, standIns.broker(kafkaConfig));
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(controllerIds().iterator().next(), standIns.controller(kafkaConfig));
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(type == Type.CO_KRAFT ? BROKER : CONTROLLER);
    }

    @Override
    public Set<Integer> brokerIds() {
        return Set.of(BROKER);
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        throw refuse("a controller's listener");
    }

    @Override
    public String bootstrapServers() {
        return "localhost:" + port();
    }

    @Override
    public String bootstrapControllers() {
        throw refuse("a controller's listener");
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw refuse("a controller's listener");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return List.of(port());
    }

    @Override
    public String clusterId() {
        return get(asked().describeCluster().clusterId());
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
    }

    @Override
    public List<Authorizer> authorizers() {
        throw refuse("its authorizer");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void start() {
        if (started) return;
        started = true;
        daemon.start();
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public void stop() {
        if (stopped) return;
        stopped = true;
        if (admin != null) admin.close();
        daemon.stop();
        daemon.removeDirectory();
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int brokerId) {
        if (brokerId != BROKER) throw refuse("broker " + brokerId + " of " + config.numBrokers());
        daemon.stop();
    }

    @Override
    public void startBroker(int brokerId) {
        if (brokerId != BROKER) throw refuse("broker " + brokerId + " of " + config.numBrokers());
        daemon.start();
    }

    @Override
    public void waitForReadyBrokers() {
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(
            () -> topic(topic).filter(found -> found.partitions().size() == partitions).isPresent(),
            topic + " has not " + partitions + " partitions");
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        TestUtils.waitForCondition(() -> topic(topic).isEmpty(), topic + " is still there");
    }

    @Override
    public void createTopic(String name, int partitions, short replicas, Map<String, String> configs)
            throws InterruptedException {
        try (Admin own = admin()) {
            own.createTopics(List.of(new NewTopic(name, partitions, (short) Math.min(replicas, 1)).configs(configs)));
            waitTopicCreation(name, partitions);
        }
    }

    @Override
    public void createTopicWithAssignment(String name, Map<Integer, List<Integer>> assignment)
            throws InterruptedException {
        if (assignment.values().stream().anyMatch(ids -> !ids.equals(List.of(BROKER)))) throw refuse("several replicas");
        ClusterInstance.super.createTopicWithAssignment(name, assignment);
    }

    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        TestUtils.waitForCondition(() -> get(asked().describeAcls(filter).values()).stream()
            .map(binding -> binding.entry()).collect(Collectors.toSet()).equals(new HashSet<>(entries)),
            "not the ACLs " + entries);
    }
}
