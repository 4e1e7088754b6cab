import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Groups of every kind, and what is about security and the cluster. */
final class OtherSurface extends Names {
    private OtherSurface() {}

    static void groups(Surface part, Admin admin) {
        part.run("listGroups", "", () -> mine(admin.listGroups().all().get(10, SECONDS)));
        part.run("listConsumerGroups", "", () -> mine(admin.listConsumerGroups().all().get(10, SECONDS)));
        part.run("describeConsumerGroups", "", () -> admin.describeConsumerGroups(List.of(group)).all().get());
        part.run("describeConsumerGroups", "no such group", () -> admin.describeConsumerGroups(List.of(nobody)).all().get());
        part.run("describeClassicGroups", "", () -> admin.describeClassicGroups(List.of(group)).all().get());
        part.run("describeClassicGroups", "no such group", () -> admin.describeClassicGroups(List.of(nobody)).all().get());
        String share = Surface.named("share"), streams = Surface.named("streams");
        part.run("describeShareGroups", "", () -> admin.describeShareGroups(List.of(share)).all().get());
        part.run("alterShareGroupOffsets", "", () -> admin.alterShareGroupOffsets(share, Map.of(first, 1L)).all().get());
        part.run("listShareGroupOffsets", "", () -> admin
            .listShareGroupOffsets(Map.of(share, new ListShareGroupOffsetsSpec())).all().get());
        part.run("deleteShareGroupOffsets", "", () -> admin.deleteShareGroupOffsets(share, Set.of(one)).all().get());
        part.run("deleteShareGroups", "", () -> admin.deleteShareGroups(List.of(share)).all().get());
        Map<org.apache.kafka.common.TopicPartition, OffsetAndMetadata> at = Map.of(first, new OffsetAndMetadata(1));
        part.run("describeStreamsGroups", "", () -> admin.describeStreamsGroups(List.of(streams)).all().get());
        part.run("alterStreamsGroupOffsets", "", () -> admin.alterStreamsGroupOffsets(streams, at).all().get());
        part.run("listStreamsGroupOffsets", "", () -> admin
            .listStreamsGroupOffsets(Map.of(streams, new ListStreamsGroupOffsetsSpec())).all().get());
        part.run("deleteStreamsGroupOffsets", "", () -> admin
            .deleteStreamsGroupOffsets(streams, Set.of(first)).partitionResult(first).get());
        part.run("deleteStreamsGroups", "", () -> admin.deleteStreamsGroups(List.of(streams)).all().get());
    }

    static void security(Surface part, Admin admin) {
        AclBinding acl = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, one, PatternType.LITERAL),
            new AccessControlEntry("User:me", "*", AclOperation.READ, AclPermissionType.ALLOW));
        part.run("createAcls", "", () -> admin.createAcls(List.of(acl)));
        part.run("describeAcls", "", () -> admin.describeAcls(AclBindingFilter.ANY));
        part.run("deleteAcls", "", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        String user = Surface.named("user");
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        part.run("alterUserScramCredentials", "", () -> admin
            .alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))));
        part.run("describeUserScramCredentials()", "", () -> mine(admin.describeUserScramCredentials().users().get()));
        part.run("describeUserScramCredentials(List)", "", () -> admin.describeUserScramCredentials(List.of(user)).all().get());
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        part.run("alterClientQuotas", "", () -> admin.alterClientQuotas(List.of(
            new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("request_percentage", 50.0))))));
        part.run("describeClientQuotas", "", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of())));
        part.run("createDelegationToken", "", admin::createDelegationToken);
        part.run("describeDelegationToken", "", admin::describeDelegationToken);
        part.run("renewDelegationToken", "", () -> admin.renewDelegationToken(new byte[] {1}));
        part.run("expireDelegationToken", "", () -> admin.expireDelegationToken(new byte[] {1}));
    }

    static void cluster(Surface part, Admin admin) {
        part.local("metrics of the process", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription");
        part.run("describeCluster", "", admin::describeCluster);
        part.run("describeFeatures", "", () -> {
            var features = admin.describeFeatures().featureMetadata().get(10, SECONDS);
            return List.of(features.finalizedFeatures().keySet(), features.supportedFeatures().keySet());
        });
        part.run("updateFeatures", "", () -> admin.updateFeatures(
            Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions().validateOnly(true)));
        TopicPartitionReplica replica = new TopicPartitionReplica(one, 0, 0);
        part.run("describeLogDirs", "", () -> admin.describeLogDirs(List.of(0)).allDescriptions().get().keySet());
        part.run("describeReplicaLogDirs", "", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get().keySet());
        part.run("alterReplicaLogDirs", "", () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")));
        part.run("electLeaders", "", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)));
        part.run("alterPartitionReassignments", "", () -> admin.alterPartitionReassignments(
            Map.of(first, Optional.of(new NewPartitionReassignment(List.of(0))))));
        part.run("listPartitionReassignments()", "", () -> admin.listPartitionReassignments().reassignments().get().size());
        part.run("listPartitionReassignments(Set)", "", () -> admin.listPartitionReassignments(Set.of(first)));
        part.run("listPartitionReassignments(Optional)", "", () -> admin
            .listPartitionReassignments(Optional.of(Set.of(first)), new ListPartitionReassignmentsOptions()));
        part.run("describeMetadataQuorum", "", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        part.run("addRaftVoter", "", () -> admin.addRaftVoter(
            7, new Uuid(1, 1), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))));
        part.run("removeRaftVoter", "", () -> admin.removeRaftVoter(7, new Uuid(1, 1)));
        part.run("unregisterBroker", "no such broker", () -> admin.unregisterBroker(99));
        part.run("unregisterController", "no such controller", () -> admin.unregisterController(99));
        part.run("clientInstanceId", "", () -> admin.clientInstanceId(Surface.SHORT));
    }
}
