// segmentio/kafka-go, with the consumer group that its Reader is made of: that one tells what is assigned.
package main

import (
	"context"
	"errors"
	"fmt"
	"program/line"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

var background = context.Background()

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

func consume() {
	balancer := map[string]kafka.GroupBalancer{
		"range":      kafka.RangeGroupBalancer{},
		"roundrobin": kafka.RoundRobinGroupBalancer{},
	}[line.Arguments["assignor"]]
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                line.Arguments["group"],
		Brokers:           []string{line.Arguments["bootstrap"]},
		Topics:            []string{line.Arguments["topic"]},
		GroupBalancers:    []kafka.GroupBalancer{balancer},
		SessionTimeout:    line.Milliseconds("session_timeout_ms"),
		HeartbeatInterval: line.Milliseconds("heartbeat_interval_ms"),
		JoinGroupBackoff:  200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	line.Must(err)
	consuming, stop := context.WithCancel(background)
	closing := line.Closing()
	go func() {
		<-closing
		stop()
	}()
	for consuming.Err() == nil {
		generation, err := group.Next(consuming)
		if err != nil {
			continue
		}
		member(generation)
	}
	line.Must(group.Close())
	line.Say("CLOSED")
}

// member reads what one generation assigns. Next waits for what it starts, and so for the last REVOKED.
func member(generation *kafka.Generation) {
	assignments := generation.Assignments[line.Arguments["topic"]]
	partitions := []int{}
	for _, each := range assignments {
		partitions = append(partitions, each.ID)
	}
	line.Say("ASSIGNED", line.Numbers(partitions))
	for _, each := range assignments {
		generation.Start(func(ending context.Context) {
			read(ending, generation, each)
			line.Say("REVOKED", each.ID)
		})
	}
}

func read(ending context.Context, generation *kafka.Generation, assigned kafka.PartitionAssignment) {
	topic := line.Arguments["topic"]
	isolation := kafka.ReadUncommitted
	if line.ReadCommitted() {
		isolation = kafka.ReadCommitted
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:        []string{line.Arguments["bootstrap"]},
		Topic:          topic,
		Partition:      assigned.ID,
		MaxWait:        200 * time.Millisecond,
		IsolationLevel: isolation,
	})
	defer reader.Close()
	line.Must(reader.SetOffset(assigned.Offset))
	for {
		record, err := reader.ReadMessage(ending)
		if err != nil {
			if ending.Err() != nil {
				return
			}
			continue
		}
		line.Say("RECORD", record.Partition, record.Offset, string(record.Value))
		err = generation.CommitOffsets(map[string]map[int]int64{topic: {record.Partition: record.Offset + 1}})
		if err != nil {
			line.Say("COMMIT_FAILED", err)
		} else {
			line.Say("COMMITTED", line.Pairs(map[int32]int64{int32(record.Partition): record.Offset + 1}))
		}
	}
}

func administer() {
	client := &kafka.Client{Addr: kafka.TCP(line.Arguments["bootstrap"])}
	line.Answer(
		func(verb string, words []string) (string, error) { return answer(client, verb, words) },
		func(err error) int {
			var known kafka.Error
			if errors.As(err, &known) {
				return int(known)
			}
			return -1
		},
	)
}

func answer(client *kafka.Client, verb string, words []string) (string, error) {
	switch verb {
	case "list":
		response, err := client.ListGroups(background, &kafka.ListGroupsRequest{})
		if err != nil {
			return "", err
		}
		names := []string{}
		for _, each := range response.Groups {
			names = append(names, each.GroupID)
		}
		return strings.Join(names, " "), response.Error
	case "describe":
		response, err := client.DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: words})
		if err != nil {
			return "", err
		}
		group := response.Groups[0]
		owned := []int{}
		for _, member := range group.Members {
			for _, topic := range member.MemberAssignments.Topics {
				owned = append(owned, topic.Partitions...)
			}
		}
		return fmt.Sprintf("%s %d %s", group.GroupState, len(group.Members), line.Numbers(owned)), group.Error
	case "offsets":
		response, err := client.OffsetFetch(background, &kafka.OffsetFetchRequest{GroupID: words[0]})
		if err != nil {
			return "", err
		}
		offsets := map[int32]int64{}
		for _, partitions := range response.Topics {
			for _, each := range partitions {
				offsets[int32(each.Partition)] = each.CommittedOffset
			}
		}
		return line.Pairs(offsets), response.Error
	case "alter":
		return "", alter(client, words)
	case "delete-offsets":
		return "", deleteOffsets(client, words)
	default:
		response, err := client.DeleteGroups(background, &kafka.DeleteGroupsRequest{GroupIDs: words})
		if err != nil {
			return "", err
		}
		return "", response.Errors[words[0]]
	}
}

func alter(client *kafka.Client, words []string) error {
	commits := []kafka.OffsetCommit{}
	for partition, offset := range line.ParsedPairs(words[2]) {
		commits = append(commits, kafka.OffsetCommit{Partition: int(partition), Offset: offset})
	}
	response, err := client.OffsetCommit(background, &kafka.OffsetCommitRequest{
		GroupID: words[0], GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{words[1]: commits},
	})
	if err != nil {
		return err
	}
	for _, each := range response.Topics[words[1]] {
		if each.Error != nil {
			return each.Error
		}
	}
	return nil
}

func deleteOffsets(client *kafka.Client, words []string) error {
	partitions := []int{}
	for _, each := range line.ParsedNumbers(words[2]) {
		partitions = append(partitions, int(each))
	}
	response, err := client.OffsetDelete(background, &kafka.OffsetDeleteRequest{
		GroupID: words[0], Topics: map[string][]int{words[1]: partitions},
	})
	if err != nil {
		return err
	}
	for _, each := range response.Topics[words[1]] {
		if each.Error != nil {
			return each.Error
		}
	}
	return response.Error
}

func produce() {
	var codec kafka.Compression
	if line.Arguments["compression"] != "none" {
		line.Must(codec.UnmarshalText([]byte(line.Arguments["compression"])))
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(line.Arguments["bootstrap"]),
		Topic:        line.Arguments["topic"],
		RequiredAcks: kafka.RequireAll,
		Compression:  codec,
		BatchTimeout: 10 * time.Millisecond,
	}
	messages := []kafka.Message{}
	for _, value := range line.Values() {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	line.Must(writer.WriteMessages(background, messages...))
	line.Must(writer.Close())
	line.Say("PRODUCED", len(messages))
}
