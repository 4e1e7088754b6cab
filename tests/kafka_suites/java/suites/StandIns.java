package suites;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;

import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Objects with the classes of Kafka's brokers and controllers, for what tests ask of them while they set up: ports,
 * settings, whether a topic is known. An Admin client asks the daemon. Whatever else is asked raises LooksIntoBroker.
 */
final class StandIns {
    private final DaemonCluster cluster;

    StandIns(DaemonCluster cluster) {
        this.cluster = cluster;
    }

    private <T> T standIn(Class<T> type, Map<String, Function<InvocationOnMock, Object>> known) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String name = call.getMethod().getName();
            if (known.containsKey(name)) return known.get(name).apply(call);
            if (call.getMethod().getDeclaringClass() == Object.class || name.equals("toString"))
                return Mockito.RETURNS_DEFAULTS.answer(call);
            throw cluster.refuse(type.getSimpleName() + "." + name);
        }));
    }

    BrokerServer broker(KafkaConfig config) {
        KRaftMetadataCache cache = metadataCache();
        SocketServer sockets = standIn(SocketServer.class, Map.of("boundPort", call -> cluster.port()));
        SharedServer shared = standIn(SharedServer.class, Map.of("loader", call -> null));
        Properties compacted = new Properties();
        compacted.put("cleanup.policy", "compact");
        GroupCoordinator groups = standIn(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", call -> compacted));
        return standIn(BrokerServer.class, Map.ofEntries(
            Map.entry("config", call -> config),
            Map.entry("metadataCache", call -> cache),
            Map.entry("socketServer", call -> sockets),
            Map.entry("sharedServer", call -> shared),
            Map.entry("groupCoordinator", call -> groups),
            Map.entry("boundPort", call -> cluster.port()),
            Map.entry("clusterId", call -> cluster.clusterId()),
            Map.entry("brokerState", call -> cluster.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING),
            Map.entry("isShutdown", call -> !cluster.isRunning()),
            Map.entry("awaitShutdown", call -> null),
            Map.entry("shutdown", call -> {
                cluster.shutdownBroker(config.brokerId());
                return null;
            }),
            Map.entry("startup", call -> {
                cluster.startBroker(config.brokerId());
                return null;
            })));
    }

    private KRaftMetadataCache metadataCache() {
        return standIn(KRaftMetadataCache.class, Map.of(
            "numPartitions", call -> cluster.topic(call.getArgument(0)).map(topic -> topic.partitions().size()),
            "contains", call -> call.getArgument(0) instanceof String name && cluster.topic(name).isPresent(),
            "getTopicId", call -> cluster.topic(call.getArgument(0)).orElseThrow().topicId(),
            "getAllTopics", call -> cluster.topicIds().keySet(),
            "getLeaderAndIsr", call -> {
                int partition = call.getArgument(1);
                return cluster.topic(call.getArgument(0)).filter(topic -> partition < topic.partitions().size())
                    .map(topic -> new LeaderAndIsr(cluster.brokerId(), List.of(cluster.brokerId())));
            },
            "hasAliveBroker", call -> call.<Integer>getArgument(0) == cluster.brokerId() && cluster.isRunning()));
    }

    /** Its metadata log is empty, so a test that waits until brokers have read all of it does not wait. */
    ControllerServer controller(KafkaConfig config) {
        RaftLog log = standIn(RaftLog.class, Map.of("endOffset", call -> new LogOffsetMetadata(0)));
        KafkaRaftManager<?> raft = standIn(KafkaRaftManager.class, Map.of("raftLog", call -> log));
        Controller controller = standIn(Controller.class, Map.of(
            "findAllTopicIds", call -> CompletableFuture.completedFuture(cluster.topicIds())));
        return standIn(ControllerServer.class, Map.of(
            "controller", call -> controller, "config", call -> config, "raftManager", call -> raft));
    }
}
