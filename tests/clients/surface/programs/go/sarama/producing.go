package main

import (
	"context"
	"reflect"

	"surface/surface"

	"github.com/IBM/sarama"
)

const noTransaction = "what it knows of its transaction"

// record is one that a consumer has: what a transaction commits the offset of.
func record(offset int64) *sarama.ConsumerMessage {
	return &sarama.ConsumerMessage{Topic: one, Partition: 0, Offset: offset}
}

func positions(offset int64) map[string][]*sarama.PartitionOffsetMetadata {
	return map[string][]*sarama.PartitionOffsetMetadata{one: {{Partition: 0, Offset: offset, LeaderEpoch: -1}}}
}

func produceSync() {
	part := surface.Of("producer", reflect.TypeFor[sarama.SyncProducer]())
	plain := surface.Must(sarama.NewSyncProducer([]string{surface.Bootstrap}, settings()))
	on := part.On(plain)
	on.Local(noTransaction, "TxnStatus", "IsTransactional")
	on.Call("SendMessage", "", message(0))
	on.Call("SendMessages", "", []*sarama.ProducerMessage{message(1), message(2)})
	on.Do("SendMessage", "no such partition", func(context.Context) (any, error) {
		bad := message(1)
		bad.Partition = 9
		_, _, err := plain.SendMessage(bad)
		return nil, err
	})
	on.Call("Close", "")
	id := surface.Must(sarama.NewSyncProducer([]string{surface.Bootstrap}, transactional("sync-txn")))
	on = part.On(id)
	on.Call("BeginTxn", "")
	on.Call("SendMessage", "in a transaction", message(1))
	on.Call("AddOffsetsToTxn", "", positions(1), group)
	on.Call("AddOffsetsToTxnWithGroupMetadata", "", positions(2), sarama.NewConsumerGroupMetadata(group))
	on.Call("AddMessageToTxn", "", record(1), group, (*string)(nil))
	on.Call("AddMessageToTxnWithGroupMetadata", "", record(1), sarama.NewConsumerGroupMetadata(group), (*string)(nil))
	on.Call("CommitTxn", "")
	on.Call("BeginTxn", "again")
	on.Call("SendMessage", "in a transaction that is aborted", message(1))
	on.Call("AbortTxn", "")
	on.Call("BeginTxn", "of a stranger")
	stranger := &sarama.ConsumerGroupMetadata{GroupID: group, GenerationID: 7, MemberID: nobody}
	on.Call("AddOffsetsToTxnWithGroupMetadata", "of a stranger", positions(2), stranger)
	on.Call("CommitTxn", "of a stranger")
	surface.Must(true, id.Close())
	part.End()
}

func produceAsync() {
	part := surface.Of("async producer", reflect.TypeFor[sarama.AsyncProducer]())
	plain := surface.Must(sarama.NewAsyncProducer([]string{surface.Bootstrap}, settings()))
	on := part.On(plain)
	on.Local(noTransaction, "TxnStatus", "IsTransactional")
	landed := func(sent *sarama.ProducerMessage) (any, error) {
		return map[string]any{"topic": sent.Topic, "partition": sent.Partition, "offset": sent.Offset}, nil
	}
	on.Do("Input", "", func(context.Context) (any, error) {
		plain.Input() <- message(1)
		return nil, nil
	})
	on.Do("Successes", "", func(context.Context) (any, error) { return landed(<-plain.Successes()) })
	on.Do("Errors", "", func(context.Context) (any, error) {
		bad := message(1)
		bad.Partition = 9
		plain.Input() <- bad
		return nil, (<-plain.Errors()).Err
	})
	on.Call("Close", "")
	closing := surface.Must(sarama.NewAsyncProducer([]string{surface.Bootstrap}, settings()))
	part.On(closing).Do("AsyncClose", "", func(context.Context) (any, error) {
		closing.Input() <- message(1)
		closing.AsyncClose()
		return landed(<-closing.Successes())
	})
	transactAsync(part)
	part.End()
}

func transactAsync(part *surface.Part) {
	id := surface.Must(sarama.NewAsyncProducer([]string{surface.Bootstrap}, transactional("async-txn")))
	on := part.On(id)
	send := func() {
		id.Input() <- message(1)
		<-id.Successes()
	}
	on.Call("BeginTxn", "")
	send()
	on.Call("AddOffsetsToTxn", "", positions(1), group)
	on.Call("AddOffsetsToTxnWithGroupMetadata", "", positions(2), sarama.NewConsumerGroupMetadata(group))
	on.Call("AddMessageToTxn", "", record(1), group, (*string)(nil))
	on.Call("AddMessageToTxnWithGroupMetadata", "", record(1), sarama.NewConsumerGroupMetadata(group), (*string)(nil))
	on.Call("CommitTxn", "")
	on.Call("BeginTxn", "again")
	send()
	on.Call("AbortTxn", "")
	surface.Must(true, id.Close())
}
