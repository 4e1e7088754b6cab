// sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"program/line"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	switch line.Arguments["mode"] {
	case "consume":
		consume()
	case "admin":
		administer()
	default:
		produce()
	}
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	return config
}

type handler struct{ topic string }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	line.Say("ASSIGNED", line.Numbers(session.Claims()[h.topic]))
	return nil
}

func (h handler) Cleanup(session sarama.ConsumerGroupSession) error {
	line.Say("REVOKED", line.Numbers(session.Claims()[h.topic]))
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, open := <-claim.Messages():
			if !open {
				return nil
			}
			line.Say("RECORD", record.Partition, record.Offset, string(record.Value))
			session.MarkMessage(record, "")
			if len(claim.Messages()) == 0 {
				session.Commit()
				line.Say("COMMITTED", line.Pairs(map[int32]int64{record.Partition: record.Offset + 1}))
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume() {
	config := settings()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = line.Milliseconds("session_timeout_ms")
	config.Consumer.Group.Heartbeat.Interval = line.Milliseconds("heartbeat_interval_ms")
	if line.ReadCommitted() {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Consumer.Group.InstanceId = line.Arguments["instance"]
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{map[string]sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky":     sarama.NewBalanceStrategySticky(),
	}[line.Arguments["assignor"]]}
	group, err := sarama.NewConsumerGroup([]string{line.Arguments["bootstrap"]}, line.Arguments["group"], config)
	line.Must(err)
	consuming, stop := context.WithCancel(context.Background())
	closing := line.Closing()
	go func() {
		<-closing
		stop()
	}()
	topic := line.Arguments["topic"]
	for consuming.Err() == nil {
		if err := group.Consume(consuming, []string{topic}, handler{topic}); err != nil && consuming.Err() == nil {
			time.Sleep(100 * time.Millisecond) // the daemon is away: Consume is to be called again
		}
	}
	line.Must(group.Close())
	line.Say("CLOSED")
}

func administer() {
	admin, err := sarama.NewClusterAdmin([]string{line.Arguments["bootstrap"]}, settings())
	line.Must(err)
	defer admin.Close()
	line.Answer(
		func(verb string, words []string) (string, error) { return answer(admin, verb, words) },
		func(err error) int {
			var known sarama.KError
			if errors.As(err, &known) {
				return int(known)
			}
			return -1
		},
	)
}

func answer(admin sarama.ClusterAdmin, verb string, words []string) (string, error) {
	switch verb {
	case "list":
		groups, err := admin.ListConsumerGroups()
		names := []string{}
		for name := range groups {
			names = append(names, name)
		}
		return strings.Join(names, " "), err
	case "describe":
		groups, err := admin.DescribeConsumerGroups(words)
		if err != nil {
			return "", err
		}
		owned := []int32{}
		for _, member := range groups[0].Members {
			assignment, err := member.GetMemberAssignment()
			if err != nil {
				return "", err
			}
			for _, partitions := range assignment.Topics {
				owned = append(owned, partitions...)
			}
		}
		return fmt.Sprintf("%s %d %s", groups[0].State, len(groups[0].Members), line.Numbers(owned)), nil
	case "offsets":
		fetched, err := admin.ListConsumerGroupOffsets(words[0], nil)
		if err != nil {
			return "", err
		}
		offsets := map[int32]int64{}
		for _, partitions := range fetched.Blocks {
			for partition, block := range partitions {
				offsets[partition] = block.Offset
			}
		}
		return line.Pairs(offsets), nil
	case "delete-offsets":
		for _, partition := range line.ParsedNumbers(words[2]) {
			if err := admin.DeleteConsumerGroupOffset(words[0], words[1], partition); err != nil {
				return "", err
			}
		}
		return "", nil
	default:
		return "", admin.DeleteConsumerGroup(words[0])
	}
}

func produce() {
	config := settings()
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	line.Must(config.Producer.Compression.UnmarshalText([]byte(line.Arguments["compression"])))
	id, transactional := line.Arguments["transactional_id"]
	if transactional {
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = id
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{line.Arguments["bootstrap"]}, config)
	line.Must(err)
	if transactional {
		line.Must(producer.BeginTxn())
		write(producer, line.Values())
		line.Must(producer.CommitTxn())
		line.Must(producer.BeginTxn())
		write(producer, line.Aborted())
		line.Must(producer.AbortTxn())
	} else {
		write(producer, line.Values())
	}
	line.Must(producer.Close())
	line.Say("PRODUCED", line.Arguments["count"])
}

func write(producer sarama.SyncProducer, values []string) {
	messages := []*sarama.ProducerMessage{}
	for _, value := range values {
		message := &sarama.ProducerMessage{Topic: line.Arguments["topic"], Value: sarama.StringEncoder(value)}
		messages = append(messages, message)
	}
	line.Must(producer.SendMessages(messages))
}
