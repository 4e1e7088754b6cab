// franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"program/line"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const copiedAtOnce = 20

var background = context.Background()

func main() {
	switch line.Arguments["mode"] {
	case "consume":
		consume()
	case "copy":
		copyAll()
	case "admin":
		administer()
	default:
		produce()
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(line.Arguments["bootstrap"]))...)
	line.Must(err)
	return made
}

// member are the options of a consumer that tells what it owns.
func member() []kgo.Opt {
	topic := line.Arguments["topic"]
	balancer := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
		"uniform":            kgo.StickyBalancer(), // its name for the coordinator's
	}[line.Arguments["assignor"]]
	tell := func(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			line.Say(kind, line.Numbers(partitions[topic]))
		}
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(line.Arguments["group"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(tell("ASSIGNED")),
	}
	if pattern, given := line.Arguments["pattern"]; given {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(topic))
	}
	if line.Arguments["protocol"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if line.AsItComes() { // with a callback for revoked partitions it would not commit at the end
		options = append(options, kgo.ClientID(line.Arguments["client_id"]))
	} else {
		options = append(options,
			kgo.OnPartitionsRevoked(tell("REVOKED")),
			kgo.OnPartitionsLost(tell("REVOKED")),
			kgo.SessionTimeout(line.Milliseconds("session_timeout_ms")),
			kgo.HeartbeatInterval(line.Milliseconds("heartbeat_interval_ms")),
			kgo.Balancers(balancer),
			kgo.DisableAutoCommit(),
		)
	}
	if line.ReadCommitted() {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if instance := line.Arguments["instance"]; instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	return options
}

// polling ends when the program is to close.
func polling() context.Context {
	polling, stop := context.WithCancel(background)
	closing := line.Closing()
	go func() {
		<-closing
		stop()
	}()
	return polling
}

func consume() {
	options := member()
	if !line.AsItComes() {
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	consumer, polling := client(options...), polling()
	for polling.Err() == nil {
		turn(consumer, polling)
	}
	consumer.AllowRebalance()
	consumer.Close()
	line.Say("CLOSED")
}

func turn(consumer *kgo.Client, polling context.Context) {
	fetches := consumer.PollFetches(polling)
	defer consumer.AllowRebalance()
	next := map[int32]int64{}
	fetches.EachRecord(func(record *kgo.Record) {
		line.Say("RECORD", record.Partition, record.Offset, string(record.Value))
		next[record.Partition] = record.Offset + 1
	})
	if len(next) == 0 || line.AsItComes() {
		return
	}
	if err := consumer.CommitUncommittedOffsets(background); err != nil {
		line.Say("COMMIT_FAILED", err)
	} else {
		line.Say("COMMITTED", line.Pairs(next))
	}
}

// copyAll reads, processes, writes: what is read of one topic is in the other once.
func copyAll() {
	options := append(member(),
		kgo.SeedBrokers(line.Arguments["bootstrap"]),
		kgo.TransactionalID(line.Arguments["transactional_id"]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	line.Must(err)
	// Ends what a killed program of this transactional id has left open: its offsets could not be read before.
	_, _, err = session.Client().ProducerID(background)
	line.Must(err)
	for polling := polling(); polling.Err() == nil; {
		fetches := session.PollRecords(polling, copiedAtOnce)
		next, copies := map[int32]int64{}, []*kgo.Record{}
		fetches.EachRecord(func(record *kgo.Record) {
			line.Say("RECORD", record.Partition, record.Offset, string(record.Value))
			next[record.Partition] = record.Offset + 1
			target := line.Arguments["target"]
			copies = append(copies, &kgo.Record{Topic: target, Partition: record.Partition, Value: record.Value})
		})
		if len(copies) == 0 {
			continue
		}
		line.Must(session.Begin())
		failed := session.ProduceSync(background, copies...).FirstErr()
		committed, err := session.End(background, failed == nil)
		if committed {
			line.Say("COMMITTED", line.Pairs(next))
		} else {
			line.Say("COMMIT_FAILED", failed, err)
		}
	}
	session.Close()
	line.Say("CLOSED")
}

func administer() {
	admin := kadm.NewClient(client())
	defer admin.Close()
	line.Answer(
		func(verb string, words []string) (string, error) { return answer(admin, verb, words) },
		func(err error) int {
			var known *kerr.Error
			if errors.As(err, &known) {
				return int(known.Code)
			}
			return -1
		},
	)
}

func answer(admin *kadm.Client, verb string, words []string) (string, error) {
	switch verb {
	case "list":
		var groups kadm.ListedGroups
		var err error
		if len(words) == 0 {
			groups, err = admin.ListGroups(background)
		} else {
			groups, err = admin.ListGroupsByType(background, words[:1], words[1:]...)
		}
		return strings.Join(groups.Groups(), " "), err
	case "describe":
		if line.Arguments["protocol"] == "consumer" {
			groups, err := admin.DescribeConsumerGroups(background, words[0])
			if err != nil {
				return "", err
			}
			group := groups[words[0]]
			owned := partitionsOf(group.AssignedPartitions())
			return fmt.Sprintf("%s %d %s", group.State, len(group.Members), owned), group.Err
		}
		groups, err := admin.DescribeGroups(background, words[0])
		if err != nil {
			return "", err
		}
		group := groups[words[0]]
		owned := partitionsOf(group.AssignedPartitions())
		return fmt.Sprintf("%s %d %s", group.State, len(group.Members), owned), group.Err
	case "offsets":
		fetched, err := admin.FetchOffsets(background, words[0])
		offsets := map[int32]int64{}
		fetched.Each(func(each kadm.OffsetResponse) { offsets[each.Partition] = each.At })
		return line.Pairs(offsets), err
	case "alter":
		offsets := kadm.Offsets{}
		for partition, offset := range line.ParsedPairs(words[2]) {
			offsets.AddOffset(words[1], partition, offset, -1)
		}
		return "", admin.CommitAllOffsets(background, words[0], offsets)
	case "delete-offsets":
		partitions := kadm.TopicsSet{}
		partitions.Add(words[1], line.ParsedNumbers(words[2])...)
		deleted, err := admin.DeleteOffsets(background, words[0], partitions)
		if err != nil {
			return "", err
		}
		return "", deleted.Error()
	default:
		deleted, err := admin.DeleteGroups(background, words[0])
		if err != nil {
			return "", err
		}
		return "", deleted.Error()
	}
}

func partitionsOf(topics kadm.TopicsSet) string {
	owned := []int32{}
	for _, partitions := range topics {
		for partition := range partitions {
			owned = append(owned, partition)
		}
	}
	return line.Numbers(owned)
}

func produce() {
	codec := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}[line.Arguments["compression"]]
	options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(line.Arguments["topic"])}
	id, transactional := line.Arguments["transactional_id"]
	if transactional {
		options = append(options, kgo.TransactionalID(id))
	}
	producer := client(options...)
	if transactional {
		line.Must(producer.BeginTransaction())
		write(producer, line.Values())
		line.Must(producer.EndTransaction(background, kgo.TryCommit))
		line.Must(producer.BeginTransaction())
		write(producer, line.Aborted())
		line.Must(producer.EndTransaction(background, kgo.TryAbort))
	} else {
		write(producer, line.Values())
	}
	producer.Close()
	line.Say("PRODUCED", line.Arguments["count"])
}

func write(producer *kgo.Client, values []string) {
	records := []*kgo.Record{}
	for _, value := range values {
		records = append(records, kgo.StringRecord(value))
	}
	line.Must(producer.ProduceSync(background, records...).FirstErr())
}
