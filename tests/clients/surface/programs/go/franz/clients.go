package main

import (
	"context"
	"reflect"
	"time"

	"surface/surface"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func runClients() {
	part := surface.Of("client", reflect.TypeFor[*kgo.Client]())
	idle := open(kgo.ConsumerGroup(surface.Name("idle")))
	local := part.On(idle).Local
	local("settings that it was made with", "Opts", "OptValue", "OptValues", "Context", "SeedBrokers")
	local("counts what it holds", "BufferedFetchBytes", "BufferedFetchRecords", "BufferedProduceBytes",
		"BufferedProduceRecords")
	local("looks at what the last polls and commits left", "CommittedOffsets", "UncommittedOffsets", "MarkedOffsets",
		"GetConsumeTopics")
	local("marks what a later commit sends", "MarkCommitOffsets", "MarkCommitRecords")
	local("notes it for later requests", "AllowRebalance", "UpdateFetchMaxBytes", "UpdateSeedBrokers",
		"PauseFetchPartitions", "PauseFetchTopics", "ResumeFetchPartitions", "ResumeFetchTopics", "RemoveConsumePartitions")
	local("drops what waits in the client", "UnsafeAbortBufferedRecords", "AbortBufferedRecords",
		"PurgeTopicsFromClient", "PurgeTopicsFromConsuming", "PurgeTopicsFromProducing")
	local("picks one of the brokers that it knows", "Broker", "DiscoveredBrokers")
	idle.Close()
	produce(part)
	consume(part)
	transact(part)
	part.End()
}

func produce(part *surface.Part) {
	producer := open(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(one))
	on := part.On(producer)
	on.Call("Ping", "")
	on.Call("EnsureProduceConnectionIsOpen", "", int32(0))
	on.Do("ProduceSync", "", func(limited context.Context) (any, error) {
		return landed(producer.ProduceSync(limited, record(0, 1), record(1, 2)))
	})
	on.Do("ProduceSync", "no such partition", func(limited context.Context) (any, error) {
		return landed(producer.ProduceSync(limited, record(9, 1)))
	})
	on.Do("Produce", "", promised(producer.Produce))
	on.Do("TryProduce", "", promised(producer.TryProduce))
	on.Call("Flush", "")
	on.Do("ProducerID", "", func(limited context.Context) (any, error) {
		id, epoch, err := producer.ProducerID(limited)
		return map[string]any{"ProducerID": id, "epoch": epoch}, err
	})
	on.Call("PartitionLeader", "", one, int32(0))
	on.Do("ForceMetadataRefresh", "", func(limited context.Context) (any, error) {
		producer.ForceMetadataRefresh()
		return nil, producer.Ping(limited)
	})
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &one
	request.Topics = append(request.Topics, topic)
	on.Call("Request", "", request)
	on.Call("RequestCachedMetadata", "", request, time.Second)
	on.Do("RequestSharded", "", func(limited context.Context) (any, error) {
		var answers []any
		for _, shard := range producer.RequestSharded(limited, kmsg.NewPtrListGroupsRequest()) {
			answers = append(answers, shard.Err)
		}
		return answers, nil
	})
	on.Call("Close", "")
}

// promised calls what tells of a record's end by a function.
func promised(
	send func(context.Context, *kgo.Record, func(*kgo.Record, error)),
) func(context.Context) (any, error) {
	return func(limited context.Context) (any, error) {
		results := make(chan kgo.ProduceResult, 1)
		send(limited, record(0, 2), func(sent *kgo.Record, err error) { results <- kgo.ProduceResult{Record: sent, Err: err} })
		return landed(kgo.ProduceResults{<-results})
	}
}

// landed is where records went; an offset grows with each of them.
func landed(results kgo.ProduceResults) (any, error) {
	var landed []map[string]any
	for _, each := range results {
		at := map[string]any{"topic": each.Record.Topic, "partition": each.Record.Partition, "err": each.Err}
		if each.Err == nil {
			at["offset known"], at["epoch"] = each.Record.Offset >= 0, each.Record.LeaderEpoch
		}
		landed = append(landed, at)
	}
	return landed, nil
}

func polled(fetches kgo.Fetches) (any, error) {
	records := 0
	fetches.EachRecord(func(*kgo.Record) { records++ })
	return map[string]any{"some records": records > 0, "errors": fetches.Errors()}, nil
}

func consume(part *surface.Part) {
	options := []kgo.Opt{kgo.ConsumerGroup(surface.Name("kgo")), kgo.ConsumeTopics(one), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	consumer := open(options...)
	on := part.On(consumer)
	on.Do("PollFetches", "", func(limited context.Context) (any, error) { return polled(consumer.PollFetches(limited)) })
	on.Do("GroupMetadata", "", func(context.Context) (any, error) {
		member, generation := consumer.GroupMetadata()
		return map[string]any{"MemberID": member, "generation": generation}, nil
	})
	on.Call("CommitUncommittedOffsets", "")
	at := func(offset int64) map[string]map[int32]kgo.EpochOffset {
		return map[string]map[int32]kgo.EpochOffset{one: {0: {Epoch: 0, Offset: offset}}}
	}
	on.Do("CommitRecords", "", func(limited context.Context) (any, error) {
		return nil, consumer.CommitRecords(limited, &kgo.Record{Topic: one, Partition: 0, Offset: 2})
	})
	answers := make(chan any, 1)
	answered := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		answers <- []any{answer, err}
	}
	on.Do("CommitOffsets", "", func(limited context.Context) (any, error) {
		consumer.CommitOffsets(limited, at(3), answered)
		return <-answers, nil
	})
	on.Do("CommitOffsetsSync", "", func(limited context.Context) (any, error) {
		consumer.CommitOffsetsSync(limited, at(4), answered)
		return <-answers, nil
	})
	on.Do("SetOffsets", "", func(limited context.Context) (any, error) {
		consumer.SetOffsets(at(3))
		return polled(consumer.PollFetches(limited))
	})
	on.Do("PollRecords", "", func(limited context.Context) (any, error) {
		consumer.SetOffsets(at(3))
		return polled(consumer.PollRecords(limited, 1))
	})
	on.Do("CommitMarkedOffsets", "none are marked", func(limited context.Context) (any, error) {
		return nil, consumer.CommitMarkedOffsets(limited)
	})
	on.Do("ForceRebalance", "", func(limited context.Context) (any, error) {
		consumer.ForceRebalance()
		return nil, consumer.Ping(limited)
	})
	on.Do("AddConsumeTopics", "", func(limited context.Context) (any, error) {
		consumer.AddConsumeTopics(surface.Name("late"))
		return nil, consumer.Ping(limited)
	})
	on.Call("LeaveGroupContext", "")
	consumer.Close()
	leaving := open(options...)
	leaving.PollFetches(surface.Background)
	part.On(leaving).Call("LeaveGroup", "")
	leaving.Close()
	closing := open(options...)
	closing.PollFetches(surface.Background)
	part.On(closing).Call("CloseAllowingRebalance", "")
	direct := open(kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	part.On(direct).Do("AddConsumePartitions", "", func(limited context.Context) (any, error) {
		direct.AddConsumePartitions(map[string]map[int32]kgo.Offset{one: {0: kgo.NewOffset().AtStart()}})
		return polled(direct.PollFetches(limited))
	})
	direct.Close()
	share(part)
}

func share(part *surface.Part) {
	consumer := open(kgo.ShareGroup(surface.Name("kgo-share")), kgo.ConsumeTopics(one))
	on := part.On(consumer)
	on.Do("PollFetches", "of a share group", func(limited context.Context) (any, error) {
		soon, cancel := context.WithTimeout(limited, time.Second)
		defer cancel()
		return polled(consumer.PollFetches(soon))
	})
	on.Call("FlushAcks", "")
	part.Local("marks what FlushAcks sends", "MarkAcks")
	consumer.Close()
}

func transact(part *surface.Part) {
	producer := open(kgo.TransactionalID(surface.Name("kgo-txn")), kgo.DefaultProduceTopic(one))
	on := part.On(producer)
	send := func() { surface.Must(producer.ProduceSync(surface.Background, record(0, 1)).First()) }
	on.Call("BeginTransaction", "")
	send()
	on.Call("EndTransaction", "commit", kgo.TryCommit)
	on.Call("BeginTransaction", "again")
	send()
	on.Call("EndAndBeginTransaction", "", kgo.EndBeginTxnSafe, kgo.TryCommit, func(_ context.Context, err error) error { return err })
	send()
	on.Call("EndTransaction", "abort", kgo.TryAbort)
	on.Call("EndTransaction", "none is open", kgo.TryCommit)
	producer.Close()
}
