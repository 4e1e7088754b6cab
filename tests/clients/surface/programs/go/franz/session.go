package main

import (
	"context"
	"reflect"

	"surface/surface"

	"github.com/twmb/franz-go/pkg/kgo"
)

func runSession() {
	part := surface.Of("session", reflect.TypeFor[*kgo.GroupTransactSession]())
	part.Local("the client that it is made of", "Client")
	part.Local("lets a rebalance go on", "AllowRebalance")
	options := []kgo.Opt{kgo.SeedBrokers(surface.Bootstrap), kgo.ClientID(surface.Prefix),
		kgo.TransactionalID(surface.Name("session-txn")), kgo.ConsumerGroup(surface.Name("session")),
		kgo.ConsumeTopics(one), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(), kgo.FetchIsolationLevel(kgo.ReadCommitted())}
	session := surface.Must(kgo.NewGroupTransactSession(options...))
	on := part.On(session)
	on.Do("PollFetches", "", func(limited context.Context) (any, error) { return polled(session.PollFetches(limited)) })
	on.Call("Begin", "")
	on.Do("ProduceSync", "", func(limited context.Context) (any, error) {
		return landed(session.ProduceSync(limited, record(0, 1)))
	})
	on.Do("Produce", "", promised(session.Produce))
	on.Do("TryProduce", "", promised(session.TryProduce))
	on.Call("End", "commit", kgo.TryCommit)
	on.Do("PollRecords", "", func(limited context.Context) (any, error) { return polled(session.PollRecords(limited, 1)) })
	on.Call("Begin", "again")
	on.Call("End", "abort", kgo.TryAbort)
	on.Call("Close", "")
	second := surface.Must(kgo.NewGroupTransactSession(options...))
	second.PollFetches(surface.Background)
	part.On(second).Call("CloseAllowingRebalance", "")
	part.End()
}
