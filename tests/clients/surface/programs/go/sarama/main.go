// sarama: its interfaces ClusterAdmin, Client, OffsetManager, Consumer, ConsumerGroup, SyncProducer, AsyncProducer.
package main

import (
	"errors"

	"surface/surface"

	"github.com/IBM/sarama"
)

var (
	one, two, three, absent = surface.Name("one"), surface.Name("two"), surface.Name("three"), surface.Name("absent")
	group, other, nobody    = surface.Name("group"), surface.Name("other"), surface.Name("nobody")
)

func main() {
	surface.ErrorName = func(err error) string {
		var code sarama.KError
		if errors.As(err, &code) {
			return surface.Code(int16(code))
		}
		return err.Error()
	}
	addresses := []string{surface.Bootstrap}
	admin := surface.Must(sarama.NewClusterAdmin(addresses, settings()))
	administerTopics(admin)
	client := surface.Must(sarama.NewClient(addresses, settings()))
	produceSync()
	produceAsync()
	administerGroups(admin)
	runClient(client)
	manageOffsets(client)
	consume(client)
	consumeInGroup()
	administerRest(admin)
	surface.Must(true, client.Close())
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = surface.Prefix
	config.Metadata.AllowAutoTopicCreation = false
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func transactional(id string) *sarama.Config {
	config := settings()
	config.Producer.Transaction.ID = surface.Name(id)
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	return config
}

// message is one whose time is told, not the clock's.
func message(number int64) *sarama.ProducerMessage {
	value := sarama.StringEncoder("value-" + string(rune('0'+number)))
	return &sarama.ProducerMessage{Topic: one, Partition: 0, Value: value, Timestamp: surface.Time(int(number))}
}

// node is what is told of a broker: an object with a connection of its own.
func node(broker *sarama.Broker, err error) (any, error) {
	if broker == nil {
		return nil, err
	}
	return broker.ID(), err
}
