package main

import (
	"context"
	"reflect"
	"time"

	"surface/surface"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

var clients = surface.Of("client", reflect.TypeFor[*kafka.Client]())

func runTopics(client *kafka.Client) {
	on := clients.On(client)
	create := func(topics ...kafka.TopicConfig) *kafka.CreateTopicsRequest {
		return &kafka.CreateTopicsRequest{Topics: topics}
	}
	days := []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "86400000"}}
	on.Call("CreateTopics", "", create(
		kafka.TopicConfig{Topic: one, NumPartitions: 2, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: two, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: days},
	))
	on.Call("CreateTopics", "refused", create(
		kafka.TopicConfig{Topic: one, NumPartitions: 2, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: "a/b", NumPartitions: 2, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: absent, NumPartitions: 2, ReplicationFactor: 3},
		kafka.TopicConfig{Topic: absent + "2", NumPartitions: 0, ReplicationFactor: 1},
	))
	surface.Until(func() bool {
		answer, err := client.Metadata(surface.Background, &kafka.MetadataRequest{Topics: []string{one, two}})
		return err == nil && len(answer.Topics[0].Partitions)+len(answer.Topics[1].Partitions) == 3
	})
	on.Do("Metadata", "", func(limited context.Context) (any, error) {
		answer, err := client.Metadata(limited, &kafka.MetadataRequest{Topics: []string{one, absent}})
		if err != nil {
			return nil, err
		}
		return []any{len(answer.Brokers), answer.Topics}, nil
	})
	on.Call("CreatePartitions", "", &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{
		{Name: two, Count: 2}, {Name: absent, Count: 2}, {Name: one, Count: 1},
	}})
	topic := func(name string, configs ...string) kafka.DescribeConfigRequestResource {
		return kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ConfigNames: configs,
		}
	}
	describe := func(resources ...kafka.DescribeConfigRequestResource) *kafka.DescribeConfigsRequest {
		return &kafka.DescribeConfigsRequest{Resources: resources, IncludeSynonyms: true}
	}
	on.Call("DescribeConfigs", "", describe(topic(one)))
	on.Call("DescribeConfigs", "some", describe(topic(two, "retention.ms"), topic(absent)))
	alter := func(value string) *kafka.AlterConfigsRequest {
		return &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: two,
			Configs: []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: value}},
		}}}
	}
	on.Call("AlterConfigs", "", alter("172800000"))
	on.Call("AlterConfigs", "a bad value", alter("soon"))
	set := func(value string) *kafka.IncrementalAlterConfigsRequest {
		return &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: two,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "cleanup.policy", Value: value, ConfigOperation: kafka.ConfigOperationSet,
			}},
		}}}
	}
	on.Call("IncrementalAlterConfigs", "", set("compact"))
	on.Call("IncrementalAlterConfigs", "a bad value", set("burn"))
	surface.Until(func() bool {
		answer, err := client.DescribeConfigs(surface.Background, describe(topic(two, "cleanup.policy")))
		return err == nil && answer.Resources[0].ConfigEntries[0].ConfigValue == "compact"
	})
	on.Call("DescribeConfigs", "altered", describe(topic(two, "retention.ms", "cleanup.policy")))
}

func runRecords(client *kafka.Client) {
	on := clients.On(client)
	records := func() kafka.RecordReader {
		return kafka.NewRecordReader(
			kafka.Record{Time: surface.Time(0), Value: kafka.NewBytes(value(0))},
			kafka.Record{Time: surface.Time(1), Value: kafka.NewBytes(value(1))},
		)
	}
	on.Call("Produce", "", &kafka.ProduceRequest{Topic: one, RequiredAcks: kafka.RequireAll, Records: records()})
	on.Call("Produce", "gzip", &kafka.ProduceRequest{
		Topic: one, RequiredAcks: kafka.RequireOne, Records: records(), Compression: kafka.Gzip,
	})
	raw := func() protocol.RawRecordSet {
		var set protocol.RawRecordSet
		batch := protocol.RecordSet{Version: 2, Records: records()}
		surface.Must(set.ReadFrom(encoded(batch)))
		return set
	}
	on.Call("RawProduce", "", &kafka.RawProduceRequest{Topic: one, RequiredAcks: kafka.RequireAll, RawRecords: raw()})
	fetch := func(topic string, partition int, offset int64) func(context.Context) (any, error) {
		return func(limited context.Context) (any, error) {
			answer, err := client.Fetch(limited, &kafka.FetchRequest{
				Topic: topic, Partition: partition, Offset: offset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond,
			})
			if err != nil {
				return nil, err
			}
			return []any{answer.HighWatermark, answer.LastStableOffset, answer.LogStartOffset, answer.Error, read(answer)}, nil
		}
	}
	on.Do("Fetch", "", fetch(one, 0, 0))
	on.Do("Fetch", "at the end", fetch(one, 0, 6))
	on.Do("Fetch", "out of range", fetch(one, 0, 1_000))
	on.Call("ListOffsets", "", &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		one: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0), kafka.TimeOffsetOf(0, surface.Time(1)), kafka.LastOffsetOf(9)},
	}})
}

func runOffsets(client *kafka.Client) {
	on := clients.On(client)
	commit := func(generation int, member string) *kafka.OffsetCommitRequest {
		return &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: generation, MemberID: member, Topics: map[string][]kafka.OffsetCommit{
				one: {{Partition: 0, Offset: 1, Metadata: "why"}, {Partition: 9, Offset: 1}}, absent: {{Partition: 0, Offset: 1}},
			},
		}
	}
	surface.Until(func() bool { // its topic is made now
		answer, err := client.OffsetFetch(surface.Background, &kafka.OffsetFetchRequest{GroupID: group})
		return err == nil && answer.Error == nil
	})
	on.Call("OffsetCommit", "", commit(-1, ""))
	on.Call("OffsetCommit", "of a stranger", commit(3, nobody))
	on.Call("OffsetFetch", "", &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{one: {0, 1}, absent: {0}}})
	on.Call("ConsumerOffsets", "", kafka.TopicAndGroup{Topic: one, GroupId: group})
	on.Call("OffsetDelete", "", &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{one: {0}, absent: {0}}})
	on.Call("OffsetDelete", "no such group", &kafka.OffsetDeleteRequest{
		GroupID: nobody, Topics: map[string][]int{one: {0}},
	})
	on.Do("FindCoordinator", "", func(limited context.Context) (any, error) {
		answer, err := client.FindCoordinator(limited, &kafka.FindCoordinatorRequest{
			Key: group, KeyType: kafka.CoordinatorKeyTypeConsumer,
		})
		if err != nil || answer.Error != nil {
			return nil, err
		}
		return answer.Coordinator.NodeID, nil
	})
	on.Do("ListGroups", "", func(limited context.Context) (any, error) {
		answer, err := client.ListGroups(limited, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		mine := map[string]kafka.ListGroupsResponseGroup{}
		for _, each := range answer.Groups {
			mine[each.GroupID] = each
		}
		return []any{answer.Error, surface.Mine(mine)}, nil
	})
}

func runMembership(client *kafka.Client) {
	on := clients.On(client)
	join := &kafka.JoinGroupRequest{
		GroupID: group, SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second, ProtocolType: "consumer",
		GroupInstanceID: surface.Name("instance"),
		Protocols:       []kafka.GroupProtocol{{Name: "range", Metadata: kafka.GroupProtocolSubscription{Topics: []string{one}}}},
	}
	var joined *kafka.JoinGroupResponse
	on.Do("JoinGroup", "", func(limited context.Context) (any, error) {
		answer, err := client.JoinGroup(limited, join)
		if err != nil {
			return nil, err
		}
		joined = answer
		return []any{answer.Error, answer.GenerationID, answer.ProtocolName, answer.ProtocolType, len(answer.Members)}, nil
	})
	beat := func(generation int, member string) *kafka.HeartbeatRequest {
		return &kafka.HeartbeatRequest{GroupID: group, GenerationID: int32(generation), MemberID: member}
	}
	on.Call("SyncGroup", "", &kafka.SyncGroupRequest{
		GroupID: group, GenerationID: joined.GenerationID, MemberID: joined.MemberID, ProtocolType: "consumer",
		ProtocolName: "range", Assignments: []kafka.SyncGroupRequestAssignment{{
			MemberID: joined.MemberID, Assignment: kafka.GroupProtocolAssignment{AssignedPartitions: map[string][]int{one: {0, 1}}},
		}},
	})
	on.Call("Heartbeat", "", beat(joined.GenerationID, joined.MemberID))
	on.Call("Heartbeat", "of another generation", beat(joined.GenerationID+1, joined.MemberID))
	on.Call("Heartbeat", "of a stranger", beat(joined.GenerationID, nobody))
	on.Call("DescribeGroups", "", &kafka.DescribeGroupsRequest{GroupIDs: []string{group, nobody}})
	on.Call("DeleteGroups", "with a member", &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	on.Call("OffsetDelete", "of a member's topic", &kafka.OffsetDeleteRequest{
		GroupID: group, Topics: map[string][]int{one: {0}},
	})
	on.Call("LeaveGroup", "", &kafka.LeaveGroupRequest{GroupID: group, Members: []kafka.LeaveGroupRequestMember{
		{GroupInstanceID: surface.Name("instance")}, {ID: nobody},
	}})
	on.Call("DescribeGroups", "empty", &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	on.Call("DeleteGroups", "", &kafka.DeleteGroupsRequest{GroupIDs: []string{group, nobody}})
}

func runTransactions(client *kafka.Client) {
	on := clients.On(client)
	id := surface.Name("txn")
	var session kafka.ProducerSession
	on.Do("InitProducerID", "", func(limited context.Context) (any, error) {
		surface.Until(func() bool { // its topic is made now
			answer, err := client.InitProducerID(limited, &kafka.InitProducerIDRequest{
				TransactionalID: id, TransactionTimeoutMs: 10_000, ProducerID: -1, ProducerEpoch: -1,
			})
			if err != nil || answer.Error != nil {
				return false
			}
			session = *answer.Producer
			return true
		})
		return session, nil
	})
	on.Call("InitProducerID", "without an id", &kafka.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
	partitions := map[string][]kafka.AddPartitionToTxn{one: {{Partition: 1}}, absent: {{Partition: 0}}}
	add := &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, Topics: partitions,
	}
	on.Call("AddPartitionsToTxn", "one does not exist", add)
	delete(partitions, absent)
	on.Call("AddPartitionsToTxn", "", add)
	on.Call("AddOffsetsToTxn", "", &kafka.AddOffsetsToTxnRequest{
		TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, GroupID: group,
	})
	commit := &kafka.TxnOffsetCommitRequest{
		TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, GroupID: group,
		GenerationID: -1, Topics: map[string][]kafka.TxnOffsetCommit{one: {{Partition: 0, Offset: 1}}},
	}
	on.Call("TxnOffsetCommit", "", commit)
	commit.GenerationID, commit.MemberID = 3, nobody
	on.Call("TxnOffsetCommit", "of a stranger", commit)
	end := &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, Committed: true,
	}
	on.Call("EndTxn", "", end)
	end.ProducerEpoch += 5
	on.Call("EndTxn", "of another epoch", end)
}
