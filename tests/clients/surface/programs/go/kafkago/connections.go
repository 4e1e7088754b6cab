package main

import (
	"context"
	"io"
	"reflect"

	"surface/surface"

	"github.com/segmentio/kafka-go"
)

func runConnections() {
	dials := surface.Of("dialer", reflect.TypeFor[*kafka.Dialer]())
	on := dials.On(dialer)
	closed := func(connection *kafka.Conn, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return nil, connection.Close()
	}
	on.Do("Dial", "", func(context.Context) (any, error) { return closed(dialer.Dial("tcp", surface.Bootstrap)) })
	on.Do("DialContext", "", func(limited context.Context) (any, error) {
		return closed(dialer.DialContext(limited, "tcp", surface.Bootstrap))
	})
	on.Do("DialLeader", "", func(limited context.Context) (any, error) {
		return closed(dialer.DialLeader(limited, "tcp", surface.Bootstrap, one, 0))
	})
	on.Call("LookupLeader", "", "tcp", surface.Bootstrap, one, 0)
	on.Call("LookupPartition", "", "tcp", surface.Bootstrap, one, 0)
	on.Call("LookupPartitions", "", "tcp", surface.Bootstrap, one)
	name, port := host()
	partition := kafka.Partition{Topic: one, ID: 0, Leader: kafka.Broker{Host: name, Port: port}}
	on.Do("DialPartition", "", func(limited context.Context) (any, error) {
		return closed(dialer.DialPartition(limited, "tcp", surface.Bootstrap, partition))
	})
	dials.End()
	part := surface.Of("connection", reflect.TypeFor[*kafka.Conn]())
	administerByConnection(part)
	carryRecords(part)
	part.End()
}

func administerByConnection(part *surface.Part) {
	connection := surface.Must(dialer.Dial("tcp", surface.Bootstrap))
	on := part.On(connection)
	on.Local("settings of the socket", "LocalAddr", "RemoteAddr", "SetDeadline", "SetReadDeadline", "SetWriteDeadline")
	on.Local("settings of later requests", "SetRequiredAcks", "Offset")
	on.Local("whom it was dialled to", "Broker")
	on.Do("ApiVersions", "", func(context.Context) (any, error) {
		versions, err := connection.ApiVersions()
		return len(versions) > 0, err
	})
	on.Do("Brokers", "", func(context.Context) (any, error) {
		brokers, err := connection.Brokers()
		return len(brokers), err
	})
	on.Do("Controller", "", func(context.Context) (any, error) {
		broker, err := connection.Controller()
		return map[string]int{"node": broker.ID}, err
	})
	late := surface.Name("late")
	on.Call("CreateTopics", "", kafka.TopicConfig{Topic: late, NumPartitions: 1, ReplicationFactor: 1})
	on.Call("CreateTopics", "exists", kafka.TopicConfig{Topic: late, NumPartitions: 1, ReplicationFactor: 1})
	on.Call("CreateTopics", "a bad name", kafka.TopicConfig{Topic: "a/b", NumPartitions: 1, ReplicationFactor: 1})
	on.Call("ReadPartitions", "", one)
	on.Do("ReadPartitions", "all", func(context.Context) (any, error) {
		partitions, err := connection.ReadPartitions()
		var mine []string
		for _, each := range partitions {
			mine = append(mine, each.Topic)
		}
		return surface.MineOf(mine), err
	})
	on.Call("DeleteTopics", "", late)
	on.Call("DeleteTopics", "no such topic", absent)
	on.Call("Close", "")
}

func carryRecords(part *surface.Part) {
	connection := surface.Must(dialer.DialLeader(surface.Background, "tcp", surface.Bootstrap, one, 1))
	on := part.On(connection)
	on.Call("Write", "", value(0))
	on.Call("WriteMessages", "", messages(2)[0], messages(2)[1])
	on.Call("WriteCompressedMessages", "", kafka.Gzip.Codec(), messages(1)[0])
	on.Call("WriteCompressedMessagesAt", "", kafka.Snappy.Codec(), messages(1)[0])
	on.Call("ReadFirstOffset", "")
	on.Call("ReadLastOffset", "")
	on.Call("ReadOffsets", "")
	on.Call("ReadOffset", "", surface.Time(1))
	on.Call("Seek", "to the start", int64(0), kafka.SeekStart)
	on.Do("Read", "", func(context.Context) (any, error) {
		into := make([]byte, 100)
		count, err := connection.Read(into)
		return into[:count], err
	})
	on.Do("ReadMessage", "", func(context.Context) (any, error) {
		message, err := connection.ReadMessage(1_000)
		return []any{message.Offset, message.Value}, err
	})
	batch := func(open func() *kafka.Batch) func(context.Context) (any, error) {
		return func(context.Context) (any, error) {
			surface.Must(connection.Seek(0, kafka.SeekStart))
			batch, read := open(), []any{}
			for {
				message, err := batch.ReadMessage()
				if err == io.EOF {
					return []any{read, batch.HighWaterMark()}, batch.Close()
				}
				if err != nil {
					return nil, err
				}
				read = append(read, []any{message.Offset, message.Value})
			}
		}
	}
	on.Do("ReadBatch", "", batch(func() *kafka.Batch { return connection.ReadBatch(1, 100_000) }))
	on.Do("ReadBatchWith", "", batch(func() *kafka.Batch {
		return connection.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 100_000, IsolationLevel: kafka.ReadCommitted})
	}))
	on.Do("Seek", "out of range", func(context.Context) (any, error) { return connection.Seek(1_000, kafka.SeekAbsolute) })
	surface.Must(true, connection.Close())
}
