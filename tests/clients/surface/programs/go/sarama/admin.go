package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"surface/surface"

	"github.com/IBM/sarama"
)

var admins = surface.Of("admin", reflect.TypeFor[sarama.ClusterAdmin]())

func text(value string) *string { return &value }

func administerTopics(client sarama.ClusterAdmin) {
	admin := admins.On(client)
	two2 := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}
	days := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": text("86400000")}}
	admin.Call("CreateTopic", "", one, two2, false)
	admin.Call("CreateTopic", "with a config", two, days, false)
	admin.Call("CreateTopic", "exists", one, two2, false)
	admin.Call("CreateTopic", "a bad name", "a/b", two2, false)
	admin.Call("CreateTopic", "replication factor of 3", absent,
		&sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false)
	admin.Call("CreateTopic", "replicas assigned", three,
		&sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {0}}}, false)
	admin.Call("CreateTopic", "validated", absent, two2, true)
	surface.Until(func() bool {
		all, err := client.ListTopics()
		return err == nil && len(surface.Mine(all)) == 3
	})
	admin.Do("ListTopics", "", func(context.Context) (any, error) {
		all, err := client.ListTopics()
		return surface.Mine(all), err
	})
	admin.Call("DescribeTopics", "", []string{one, absent})
	admin.Call("CreatePartitions", "", two, int32(3), [][]int32(nil), false)
	admin.Call("CreatePartitions", "fewer", two, int32(1), [][]int32(nil), false)
	admin.Call("CreatePartitions", "no such topic", absent, int32(3), [][]int32(nil), false)
	topic := sarama.ConfigResource{Type: sarama.TopicResource, Name: two}
	admin.Call("DescribeConfig", "", topic)
	admin.Call("DescribeConfig", "some", sarama.ConfigResource{
		Type: sarama.TopicResource, Name: two, ConfigNames: []string{"retention.ms", "no.such.config"},
	})
	admin.Call("DescribeConfig", "no such topic", sarama.ConfigResource{Type: sarama.TopicResource, Name: absent})
	admin.Call("DescribeConfig", "of a broker", sarama.ConfigResource{
		Type: sarama.BrokerResource, Name: "0", ConfigNames: []string{"offsets.retention.minutes", "offsets.topic.num.partitions"},
	})
	full := sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true}
	admin.Do("DescribeConfigs", "with documentation", func(context.Context) (any, error) {
		answer, err := client.DescribeConfigs([]*sarama.ConfigResource{{
			Type: sarama.TopicResource, Name: two, ConfigNames: []string{"cleanup.policy", "retention.ms", "max.message.bytes"},
		}}, full)
		if err != nil {
			return nil, err
		}
		for _, entry := range answer[0].Configs {
			*entry.Documentation = fmt.Sprint("some: ", *entry.Documentation != "")
		}
		return answer, nil
	})
	admin.Call("DescribeConfigs", "", []*sarama.ConfigResource{{Type: sarama.TopicResource, Name: one}},
		sarama.DescribeConfigsOptions{})
	longer := map[string]*string{"retention.ms": text("172800000")}
	admin.Call("AlterConfig", "", sarama.TopicResource, two, longer, false)
	admin.Call("AlterConfig", "validated", sarama.TopicResource, two, map[string]*string{"retention.ms": text("x")}, true)
	set := func(value string) map[string]sarama.IncrementalAlterConfigsEntry {
		return map[string]sarama.IncrementalAlterConfigsEntry{
			"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: text(value)},
		}
	}
	admin.Call("IncrementalAlterConfig", "", sarama.TopicResource, two, set("compact"), false)
	admin.Call("IncrementalAlterConfig", "a bad value", sarama.TopicResource, two, set("burn"), false)
	surface.Until(func() bool {
		entries, err := client.DescribeConfig(topic)
		return err == nil && slices.ContainsFunc(entries, func(each sarama.ConfigEntry) bool { return each.Value == "compact" })
	})
	admin.Call("DescribeConfig", "altered", topic)
}

func administerGroups(client sarama.ClusterAdmin) {
	admin := admins.On(client)
	at := func(topic string) map[string]map[int32]sarama.OffsetAndMetadata {
		return map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 1, Metadata: "why", LeaderEpoch: 0}}}
	}
	options := &sarama.AlterConsumerGroupOffsetsOptions{}
	admin.Call("AlterConsumerGroupOffsets", "", group, at(one), options)
	admin.Call("AlterConsumerGroupOffsets", "another group", other, at(one), options)
	admin.Call("AlterConsumerGroupOffsets", "no such topic", group, at(absent), options)
	wanted := map[string][]int32{one: {0, 1}, absent: {0}}
	admin.Call("ListConsumerGroupOffsets", "", group, wanted)
	admin.Call("ListConsumerGroupOffsets", "all", group, map[string][]int32(nil))
	admin.Call("ListConsumerGroupOffsets", "no such group", nobody, wanted)
	admin.Call("ListConsumerGroupOffsetsBatch", "", map[string]map[string][]int32{group: wanted, other: nil, nobody: nil})
	admin.Call("ListOffsets", "", map[string]map[int32]int64{
		one: {0: sarama.OffsetNewest, 1: sarama.OffsetOldest}, two: {0: surface.Time(1).UnixMilli()},
	}, &sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted})
	admin.Call("ListOffsets", "at a time", map[string]map[int32]int64{one: {0: surface.Time(1).UnixMilli()}}, &sarama.ListOffsetsOptions{})
	admin.Do("ListConsumerGroups", "", func(context.Context) (any, error) {
		all, err := client.ListConsumerGroups()
		return surface.Mine(all), err
	})
	admin.Call("DescribeConsumerGroups", "", []string{group, nobody})
	admin.Do("Coordinator", "", func(context.Context) (any, error) { return node(client.Coordinator(group)) })
	admin.Do("Controller", "", func(context.Context) (any, error) { return node(client.Controller()) })
	admin.Do("DescribeCluster", "", func(context.Context) (any, error) {
		brokers, controller, err := client.DescribeCluster()
		return []any{len(brokers), controller}, err
	})
	admin.Call("DeleteConsumerGroupOffset", "", group, one, int32(0))
	admin.Call("DeleteConsumerGroupOffset", "no such group", nobody, one, int32(0))
	admin.Call("RemoveMemberFromConsumerGroup", "no such member", group, []string{surface.Name("instance")})
	admin.Call("DeleteRecords", "", one, map[int32]int64{0: 1})
	admin.Call("DeleteRecords", "past the end", one, map[int32]int64{0: 1_000})
}

func administerRest(client sarama.ClusterAdmin) {
	admin := admins.On(client)
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: one, ResourcePatternType: sarama.AclPatternLiteral,
	}
	acl := sarama.Acl{
		Principal: "User:me", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
	}
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourceName: &one, ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	admin.Call("CreateACL", "", resource, acl)
	admin.Call("CreateACLs", "", []*sarama.ResourceAcls{{Resource: resource, Acls: []*sarama.Acl{&acl}}})
	admin.Call("ListAcls", "", filter)
	admin.Call("DeleteACL", "", filter, false)
	user := surface.Name("user")
	admin.Call("UpsertUserScramCredentials", "", []sarama.AlterUserScramCredentialsUpsert{{
		Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: 4096, Salt: []byte("salt"), Password: []byte("no"),
	}})
	admin.Call("DescribeUserScramCredentials", "", []string{user})
	admin.Call("DeleteUserScramCredentials", "", []sarama.AlterUserScramCredentialsDelete{{
		Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256,
	}})
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: user}}
	admin.Call("AlterClientQuotas", "", entity, sarama.ClientQuotasOp{Key: "request_percentage", Value: 50}, true)
	admin.Call("DescribeClientQuotas", "", []sarama.QuotaFilterComponent{{
		EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: user,
	}}, true)
	admin.Call("AlterPartitionReassignments", "", one, [][]int32{{0}, {0}})
	admin.Call("ListPartitionReassignments", "", one, []int32{0})
	admin.Do("DescribeLogDirs", "", func(context.Context) (any, error) {
		directories, err := client.DescribeLogDirs([]int32{0})
		held := map[string]any{}
		for _, each := range directories[0] {
			for _, topic := range each.Topics {
				held[topic.Topic] = topic.Partitions
			}
		}
		return surface.Mine(held), err
	})
	admin.Call("ElectLeaders", "", sarama.PreferredElection, map[string][]int32{one: {0}})
	admin.Call("UpdateFeatures", "", []sarama.FeatureUpdate{{Feature: "no.such.feature", MaxVersionLevel: 1}})
	admin.Call("DeleteConsumerGroup", "", other)
	admin.Call("DeleteConsumerGroup", "no such group", nobody)
	admin.Call("DeleteTopic", "", two)
	admin.Call("DeleteTopic", "no such topic", absent)
	admin.Call("Close", "")
	admins.End()
}
