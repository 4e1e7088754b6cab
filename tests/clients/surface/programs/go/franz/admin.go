package main

import (
	"context"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"surface/surface"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	one, two, three, absent = surface.Name("one"), surface.Name("two"), surface.Name("three"), surface.Name("absent")
	group, other            = surface.Name("group"), surface.Name("group-other")
)

func administer() {
	client := open()
	admin := surface.Of("admin", reflect.TypeFor[*kadm.Client]()).On(kadm.NewClient(client))
	admin.Local("a setter of a field", "SetTimeoutMillis")
	admin.Part.Local("closes the client that it was given", "Close")
	topics(admin, kadm.NewClient(client))
	configs(admin, kadm.NewClient(client))
	offsets(admin, client)
	groups(admin)
	transactions(admin)
	security(admin)
	cluster(admin, kadm.NewClient(client))
	removals(admin)
	admin.End()
	client.Close()
}

func topics(admin surface.Target, client *kadm.Client) {
	days := map[string]*string{"retention.ms": kadm.StringPtr("86400000")}
	bad := map[string]*string{"retention.ms": kadm.StringPtr("soon")}
	none := map[string]*string(nil)
	admin.Call("CreateTopic", "", int32(2), int16(1), none, one)
	admin.Call("CreateTopic", "exists", int32(2), int16(1), none, one)
	admin.Call("CreateTopic", "replication factor of 3", int32(2), int16(3), none, absent)
	admin.Call("CreateTopics", "", int32(1), int16(1), days, two, three)
	admin.Call("CreateTopics", "a bad name", int32(1), int16(1), none, "a/b")
	admin.Call("CreateTopics", "a bad config", int32(1), int16(1), bad, absent)
	admin.Call("ValidateCreateTopics", "", int32(1), int16(1), days, absent)
	admin.Call("ValidateCreateTopics", "exists", int32(1), int16(1), days, one)
	partitions := func(topic string, count int) func() bool {
		return func() bool {
			all, err := client.ListTopics(surface.Background)
			return err == nil && len(all[topic].Partitions) == count
		}
	}
	surface.Until(partitions(one, 2))
	surface.Until(partitions(two, 1))
	surface.Until(partitions(three, 1))
	admin.Call("CreatePartitions", "", 1, two)
	admin.Call("CreatePartitions", "no such topic", 1, absent)
	admin.Call("UpdatePartitions", "", 3, two)
	admin.Call("UpdatePartitions", "fewer", 1, two)
	admin.Call("ValidateCreatePartitions", "", 1, two)
	admin.Call("ValidateUpdatePartitions", "", 5, two)
	surface.Until(partitions(two, 3))
	admin.Call("Metadata", "", one, two)
	admin.Call("Metadata", "no such topic", absent)
	admin.Call("BrokerMetadata", "")
	admin.Call("ListBrokers", "")
	admin.Call("ListTopics", "these", one, two)
	admin.Do("ListTopics", "", func(limited context.Context) (any, error) {
		all, err := kadm.NewClient(open()).ListTopics(limited)
		return surface.Mine(all), err
	})
}

func configs(admin surface.Target, client *kadm.Client) {
	longer := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("172800000")}}
	compact := []kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}
	bad := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("soon")}}
	unknown := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "no.such.config", Value: kadm.StringPtr("1")}}
	threads := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.threads", Value: kadm.StringPtr("2")}}
	admin.Call("DescribeTopicConfigs", "", one)
	admin.Call("DescribeTopicConfigs", "no such topic", absent)
	admin.Call("AlterTopicConfigs", "", longer, two)
	admin.Call("AlterTopicConfigs", "append", compact, two)
	admin.Call("AlterTopicConfigs", "a bad value", bad, two)
	admin.Call("AlterTopicConfigs", "unknown", unknown, two)
	admin.Call("AlterTopicConfigs", "no such topic", longer, absent)
	admin.Call("ValidateAlterTopicConfigs", "", longer, three)
	admin.Call("ValidateAlterTopicConfigs", "a bad value", bad, three)
	admin.Call("AlterTopicConfigsState", "", longer, three)
	admin.Call("AlterTopicConfigsState", "a bad value", bad, three)
	admin.Call("ValidateAlterTopicConfigsState", "", longer, three)
	surface.Until(func() bool {
		described, err := client.DescribeTopicConfigs(surface.Background, two, three)
		altered := 0
		for _, topic := range described {
			for _, each := range topic.Configs {
				if each.Value != nil && (*each.Value == "172800000" || *each.Value == "delete,compact") {
					altered++
				}
			}
		}
		return err == nil && altered == 3
	})
	admin.Call("DescribeTopicConfigs", "altered", two, three)
	admin.Call("DescribeBrokerConfigs", "", int32(0))
	admin.Do("DescribeBrokerConfigs", "those of offsets and transactions", func(limited context.Context) (any, error) {
		answer, err := kadm.NewClient(open()).DescribeBrokerConfigs(limited, 0)
		if err != nil {
			return nil, err
		}
		shared := regexp.MustCompile(`^(offsets\.[clmr]|offsets\.topic\.[ns]|transactional\.|log\.retention|log\.segment)`)
		return slices.DeleteFunc(answer[0].Configs, func(each kadm.Config) bool { return !shared.MatchString(each.Key) }), nil
	})
	admin.Call("DescribeBrokerConfigs", "of the cluster")
	admin.Call("DescribeBrokerConfigs", "no such broker", int32(99))
	admin.Call("ValidateAlterBrokerConfigs", "", threads, int32(0))
	admin.Call("ValidateAlterBrokerConfigsState", "", threads, int32(0))
	admin.Call("AlterBrokerConfigs", "", threads)
	admin.Call("AlterBrokerConfigs", "taken back", []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: threads[0].Name}})
	admin.Call("AlterBrokerConfigsState", "nothing", []kadm.AlterConfig{}, int32(0))
	admin.Do("ListConfigResources", "", func(limited context.Context) (any, error) {
		all, err := client.ListConfigResources(limited, kadm.ConfigResourceTopic)
		return slices.DeleteFunc(all.Resources, func(each kadm.ConfigResource) bool {
			return !strings.HasPrefix(each.Name, surface.Prefix)
		}), err
	})
}

func record(partition int32, number int64) *kgo.Record {
	value := []byte("value-" + string(rune('0'+number)))
	return &kgo.Record{Topic: one, Partition: partition, Value: value, Timestamp: surface.Time(int(number))}
}

func offsets(admin surface.Target, client *kgo.Client) {
	producer := open(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for number := range int64(4) {
		surface.Must(producer.ProduceSync(surface.Background, record(0, number)).First())
	}
	producer.Close()
	admin.Call("ListStartOffsets", "", one)
	admin.Call("ListStartOffsets", "no such topic", absent)
	admin.Call("ListEndOffsets", "", one)
	admin.Call("ListCommittedOffsets", "", one)
	admin.Call("ListMaxTimestampOffsets", "", one)
	admin.Call("ListOffsetsAfterMilli", "", surface.Time(1).UnixMilli()+500, one)
	admin.Call("ListOffsetsAfterMilli", "behind the last", surface.Time(1_000).UnixMilli(), one)
	admin.Call("ListLocalLogStartOffsets", "", one)
	admin.Call("ListLatestRemoteOffsets", "", one)
	for _, spelling := range []string{"OffsetForLeaderEpoch", "OffetForLeaderEpoch"} {
		admin.Call(spelling, "", kadm.OffsetForLeaderEpochRequest{one: {0: 0, 1: 5}})
		admin.Call(spelling, "no such topic", kadm.OffsetForLeaderEpochRequest{absent: {0: 0}})
	}
	set := func(topic string, at int64) kadm.Offsets {
		return kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: at, LeaderEpoch: 0, Metadata: "why"}}}
	}
	admin.Call("CommitOffsets", "", group, set(one, 1))
	admin.Call("CommitOffsets", "no such topic", group, set(absent, 1))
	admin.Call("CommitAllOffsets", "", group, set(one, 2))
	id := surface.Must(kadm.NewClient(client).ListTopics(surface.Background, one))[one].ID
	byID := kadm.OffsetsByID{id: {1: {Topic: one, TopicID: id, Partition: 1, At: 1, LeaderEpoch: -1}}}
	unknown := kadm.OffsetsByID{{1}: {0: {TopicID: kadm.TopicID{1}, Partition: 0, At: 1, LeaderEpoch: -1}}}
	admin.Call("CommitOffsetsByID", "", group, byID)
	admin.Call("CommitOffsetsByID", "no such topic", group, unknown)
	admin.Call("CommitAllOffsetsByID", "", other, byID)
	admin.Call("FetchOffsets", "", group)
	admin.Call("FetchOffsets", "no such group", surface.Name("nobody"))
	admin.Call("FetchOffsetsByID", "", group)
	admin.Call("FetchOffsetsForTopics", "", group, one, two)
	admin.Call("FetchOffsetsForTopics", "no such topic", group, absent)
	admin.Call("FetchManyOffsets", "", group, other, surface.Name("nobody"))
	admin.Call("Lag", "", group, other)
	admin.Call("DeleteOffsets", "", group, kadm.TopicsSet{one: {1: {}}, absent: {0: {}}})
	admin.Call("DeleteOffsets", "no such group", surface.Name("nobody"), kadm.TopicsSet{one: {1: {}}})
	admin.Call("DeleteRecords", "", set(one, 2))
	admin.Call("DeleteRecords", "past the end", set(one, 99))
	admin.Call("DeleteRecords", "no such topic", set(absent, 1))
	admin.Call("ListStartOffsets", "after deletion", one)
}

func groups(admin surface.Target) {
	member := open(kgo.ConsumerGroup(group), kgo.ConsumeTopics(one), kgo.InstanceID(surface.Name("instance")),
		kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()))
	member.PollFetches(surface.Background)
	admin.Do("ListGroups", "", func(limited context.Context) (any, error) {
		all, err := kadm.NewClient(open()).ListGroups(limited)
		return surface.Mine(all), err
	})
	admin.Call("ListGroups", "in a state that there is not", "NoState")
	admin.Do("ListGroupsByType", "", func(limited context.Context) (any, error) {
		all, err := kadm.NewClient(open()).ListGroupsByType(limited, []string{"classic"}, "Stable")
		return surface.Mine(all), err
	})
	admin.Call("DescribeGroups", "", group, other, surface.Name("nobody"))
	admin.Call("DescribeConsumerGroups", "", group, surface.Name("nobody"))
	admin.Call("FindGroupCoordinators", "", group, other)
	admin.Call("DeleteOffsets", "of a member's topic", group, kadm.TopicsSet{one: {0: {}}})
	admin.Call("CommitOffsets", "of a group with members", group, kadm.Offsets{one: {0: {Topic: one, At: 1}}})
	admin.Call("DeleteGroups", "with members", group)
	admin.Call("ListTopicsWithInternal", "", one, "__consumer_offsets")
	nobody := kadm.LeaveGroup(group).InstanceIDs(surface.Name("nobody")).Reason("none")
	admin.Call("LeaveGroup", "no such member", nobody)
	admin.Call("LeaveGroup", "", kadm.LeaveGroup(group).InstanceIDs(surface.Name("instance")).Reason("asked to"))
	member.Close()
	admin.Call("DescribeGroups", "empty", group)
}

func transactions(admin surface.Target) {
	id := surface.Name("txn")
	producer := open(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	surface.Must(true, producer.BeginTransaction())
	surface.Must(producer.ProduceSync(surface.Background, record(1, 0)).First())
	client := kadm.NewClient(open())
	admin.Call("FindTxnCoordinators", "", id)
	admin.Do("DescribeProducers", "", func(limited context.Context) (any, error) {
		described, err := client.DescribeProducers(limited, kadm.TopicsSet{one: {1: {}}})
		return described.SortedProducers(), err
	})
	admin.Call("DescribeProducers", "no such topic", kadm.TopicsSet{absent: {0: {}}})
	admin.Call("DescribeTransactions", "", id, surface.Name("nobody"))
	admin.Do("ListTransactions", "", func(limited context.Context) (any, error) {
		all, err := client.ListTransactions(limited, nil, nil)
		return surface.Mine(all), err
	})
	admin.Call("ListTransactions", "in a state that there is not", []int64(nil), []string{"NoState"})
	admin.Call("ListTransactionsByTxPattern", "", []int64(nil), []string(nil), surface.Prefix+".*")
	producerID, epoch, err := producer.ProducerID(surface.Background)
	surface.Must(producerID, err)
	markers := kadm.TxnMarkers{ProducerID: producerID, ProducerEpoch: epoch, Topics: kadm.TopicsSet{one: {1: {}}}}
	admin.Do("WriteTxnMarkers", "", func(limited context.Context) (any, error) {
		written, err := client.WriteTxnMarkers(limited, markers)
		return slices.Collect(maps.Values(written)), err
	})
	surface.Must(true, producer.EndTransaction(surface.Background, kgo.TryAbort))
	producer.Close()
	admin.Do("DescribeTransactions", "aborted", func(limited context.Context) (any, error) {
		for {
			described, err := client.DescribeTransactions(limited, id)
			if err != nil || described[id].State != "PrepareAbort" {
				return described, err
			}
		}
	})
}

func removals(admin surface.Target) {
	admin.Call("DeleteGroup", "", group)
	admin.Call("DeleteGroup", "no such group", group)
	admin.Call("DeleteGroups", "", other, surface.Name("nobody"))
	admin.Call("DeleteTopic", "", three)
	admin.Call("DeleteTopic", "no such topic", three)
	admin.Call("DeleteTopics", "", two, absent)
}
