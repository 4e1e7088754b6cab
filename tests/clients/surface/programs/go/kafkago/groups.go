package main

import (
	"context"
	"reflect"
	"time"

	"surface/surface"

	"github.com/segmentio/kafka-go"
)

func writeAndRead() {
	writes := surface.Of("producer", reflect.TypeFor[*kafka.Writer]())
	writer := &kafka.Writer{
		Addr: kafka.TCP(surface.Bootstrap), Transport: transport, Topic: one, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond,
	}
	on := writes.On(writer)
	on.Local("counts what it did", "Stats")
	on.Call("WriteMessages", "", messages(2)[0], messages(2)[1])
	on.Call("Close", "")
	strange := &kafka.Writer{Addr: writer.Addr, Transport: transport, Topic: absent, MaxAttempts: 1}
	writes.On(strange).Call("WriteMessages", "no such topic", messages(1)[0])
	surface.Must(true, strange.Close())
	writes.End()
	reads := surface.Of("consumer", reflect.TypeFor[*kafka.Reader]())
	plain := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{surface.Bootstrap}, Dialer: dialer, Topic: one, MaxWait: 100 * time.Millisecond,
	})
	of := reads.On(plain)
	of.Local("what it was made with", "Config")
	of.Local("what its last fetches left", "Lag", "Offset", "Stats")
	read := func(message kafka.Message, err error) (any, error) {
		return []any{message.Partition, message.Offset, message.Value}, err
	}
	of.Do("ReadMessage", "", func(limited context.Context) (any, error) { return read(plain.ReadMessage(limited)) })
	of.Do("SetOffset", "", func(limited context.Context) (any, error) {
		surface.Must(true, plain.SetOffset(3))
		return read(plain.FetchMessage(limited))
	})
	of.Call("SetOffsetAt", "", surface.Time(1))
	of.Call("ReadLag", "")
	surface.Must(true, plain.Close())
	member := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{surface.Bootstrap}, Dialer: dialer, Topic: one, GroupID: surface.Name("reader"),
		MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
	})
	of = reads.On(member)
	var first kafka.Message
	of.Do("FetchMessage", "", func(limited context.Context) (any, error) {
		message, err := member.FetchMessage(limited)
		first = message
		return len(message.Value) > 0, err // of either partition
	})
	of.Call("CommitMessages", "", first)
	of.Call("Close", "")
	reads.End()
}

func runGroup() {
	part := surface.Of("group", reflect.TypeFor[*kafka.ConsumerGroup]())
	of := surface.Of("generation", reflect.TypeFor[*kafka.Generation]())
	member := surface.Must(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: surface.Name("direct"), Brokers: []string{surface.Bootstrap}, Dialer: dialer, Topics: []string{one},
		HeartbeatInterval: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
	}))
	on := part.On(member)
	var generation *kafka.Generation
	on.Do("Next", "", func(limited context.Context) (any, error) {
		next, err := member.Next(limited)
		generation = next
		return []any{next.ID, next.Assignments}, err
	})
	of.On(generation).Call("CommitOffsets", "", map[string]map[int]int64{one: {0: 1}})
	of.On(generation).Do("CommitOffsets", "no such topic", func(context.Context) (any, error) {
		return nil, generation.CommitOffsets(map[string]map[int]int64{absent: {0: 1}})
	})
	of.Local("runs a function until the generation ends", "Start")
	on.Call("Close", "")
	part.End()
	of.End()
}
