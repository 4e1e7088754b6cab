package main

import (
	"context"
	"reflect"

	"surface/surface"

	"github.com/IBM/sarama"
)

func runClient(client sarama.Client) {
	part := surface.Of("client", reflect.TypeFor[sarama.Client]())
	on := part.On(client)
	on.Local("what it was made with, and whether it is open", "Config", "Closed")
	on.Local("looks at what the last metadata said", "PartitionNotReadable")
	on.Do("Controller", "", func(context.Context) (any, error) { return node(client.Controller()) })
	on.Do("RefreshController", "", func(context.Context) (any, error) { return node(client.RefreshController()) })
	on.Call("RefreshBrokers", "", []string{surface.Bootstrap})
	on.Call("RefreshMetadata", "", one)
	on.Call("RefreshMetadata", "no such topic", absent)
	on.Do("Brokers", "", func(context.Context) (any, error) { return len(client.Brokers()), nil })
	on.Do("LeastLoadedBroker", "", func(context.Context) (any, error) {
		picked, err := node(client.LeastLoadedBroker(), nil)
		return picked != nil, err // a seed broker has no number
	})
	on.Do("Broker", "", func(context.Context) (any, error) { return node(client.Broker(0)) })
	on.Do("Topics", "", func(context.Context) (any, error) {
		all, err := client.Topics()
		return surface.MineOf(all), err
	})
	on.Call("Partitions", "", one)
	on.Call("Partitions", "no such topic", absent)
	on.Call("WritablePartitions", "", one)
	on.Do("Leader", "", func(context.Context) (any, error) { return node(client.Leader(one, 0)) })
	on.Do("Leader", "no such partition", func(context.Context) (any, error) { return node(client.Leader(one, 9)) })
	on.Do("LeaderAndEpoch", "", func(context.Context) (any, error) {
		_, epoch, err := client.LeaderAndEpoch(one, 0)
		return epoch, err
	})
	on.Call("Replicas", "", one, int32(0))
	on.Call("InSyncReplicas", "", one, int32(0))
	on.Call("OfflineReplicas", "", one, int32(0))
	on.Call("GetOffset", "newest", one, int32(0), sarama.OffsetNewest)
	on.Call("GetOffset", "oldest", one, int32(0), sarama.OffsetOldest)
	on.Call("GetOffset", "at a time", one, int32(0), surface.Time(1).UnixMilli())
	on.Do("Coordinator", "", func(context.Context) (any, error) { return node(client.Coordinator(group)) })
	on.Call("RefreshCoordinator", "", group)
	id := surface.Name("txn")
	on.Do("TransactionCoordinator", "", func(context.Context) (any, error) {
		return node(client.TransactionCoordinator(id))
	})
	on.Call("RefreshTransactionCoordinator", "", id)
	on.Call("InitProducerID", "")
	second := surface.Must(sarama.NewClient([]string{surface.Bootstrap}, settings()))
	part.On(second).Call("Close", "")
	part.End()
}

func manageOffsets(client sarama.Client) {
	part := surface.Of("offsets", reflect.TypeFor[sarama.OffsetManager]())
	manager := surface.Must(sarama.NewOffsetManagerFromClient(surface.Name("managed"), client))
	on := part.On(manager)
	on.Do("ManagePartition", "", func(context.Context) (any, error) {
		partition, err := manager.ManagePartition(one, 0)
		if err != nil {
			return nil, err
		}
		offset, metadata := partition.NextOffset()
		partition.MarkOffset(2, "why")
		return []any{offset, metadata}, nil
	})
	on.Call("Commit", "")
	on.Call("Close", "")
	again := surface.Must(sarama.NewOffsetManagerFromClient(surface.Name("managed"), client))
	partition := surface.Must(again.ManagePartition(one, 0))
	of := surface.Of("partition's offset", reflect.TypeFor[sarama.PartitionOffsetManager]())
	of.Local("what its manager commits", "MarkOffset", "ResetOffset")
	of.Local("a channel of what the manager's commits came to", "Errors")
	of.On(partition).Call("NextOffset", "")
	of.On(partition).Call("AsyncClose", "")
	other := surface.Must(again.ManagePartition(one, 1))
	go again.Close()
	of.On(other).Call("Close", "")
	part.End()
	of.End()
}

func consume(client sarama.Client) {
	part := surface.Of("consumer", reflect.TypeFor[sarama.Consumer]())
	consumer := surface.Must(sarama.NewConsumerFromClient(client))
	on := part.On(consumer)
	on.Local("what its partitions have read", "HighWaterMarks")
	on.Local("notes it for later fetches", "Pause", "Resume", "PauseAll", "ResumeAll")
	on.Do("Topics", "", func(context.Context) (any, error) {
		all, err := consumer.Topics()
		return surface.MineOf(all), err
	})
	on.Call("Partitions", "", one)
	read := func(offset int64) func(context.Context) (any, error) {
		return func(context.Context) (any, error) {
			reader, err := consumer.ConsumePartition(one, 0, offset)
			if err != nil {
				return nil, err
			}
			defer reader.Close()
			first := <-reader.Messages()
			return []any{first.Offset, first.Value, first.Timestamp}, nil
		}
	}
	on.Do("ConsumePartition", "", read(sarama.OffsetOldest))
	on.Do("ConsumePartition", "from an offset", read(2))
	on.Do("ConsumePartition", "out of range", read(1_000))
	on.Do("ConsumePartition", "no such partition", func(context.Context) (any, error) {
		return consumer.ConsumePartition(one, 9, sarama.OffsetOldest)
	})
	of := surface.Of("partition's consumer", reflect.TypeFor[sarama.PartitionConsumer]())
	of.Local("what the last fetch said", "HighWaterMarkOffset")
	of.Local("notes it for later fetches", "Pause", "Resume", "IsPaused")
	of.Local("a channel of what its fetches came to", "Errors")
	reader := surface.Must(consumer.ConsumePartition(one, 0, sarama.OffsetOldest))
	of.On(reader).Do("Messages", "", func(context.Context) (any, error) { return (<-reader.Messages()).Offset, nil })
	of.On(reader).Call("Close", "")
	leaving := surface.Must(consumer.ConsumePartition(one, 0, sarama.OffsetOldest))
	of.On(leaving).Call("AsyncClose", "")
	on.Call("Close", "")
	part.End()
	of.End()
}
