// franz-go's share consumer, as a program of ../../../../share/README.md.
package main

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"program/line"
)

const atOnce = 40

var failures atomic.Int64

func main() {
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(line.Arguments["bootstrap"]),
		kgo.ShareGroup(line.Arguments["group"]),
		kgo.ConsumeTopics(line.Arguments["topic"]),
		kgo.ShareMaxRecords(atOnce),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				failures.Add(1)
				line.Say("FAILED", err)
			}
		}),
	)
	line.Must(err)
	polling, stop := context.WithCancel(context.Background())
	closing := line.Closing()
	go func() {
		<-closing
		stop()
	}()
	turn := implicitly(consumer)
	if line.Arguments["acknowledge"] == "explicit" {
		turn = explicitly(consumer)
	}
	for polling.Err() == nil {
		turn(polling)
	}
	consumer.Close()
	line.Say("CLOSED")
}

func poll(consumer *kgo.Client, polling context.Context) []*kgo.Record {
	waiting, stop := context.WithTimeout(polling, 200*time.Millisecond)
	defer stop()
	return consumer.PollRecords(waiting, atOnce).Records()
}

// flush sends the acknowledgements and returns whether all were accepted since there were so many failures.
func flush(consumer *kgo.Client, before int64) bool {
	waiting, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	err := consumer.FlushAcks(waiting)
	if err != nil {
		line.Say("FAILED", err)
	}
	return err == nil && failures.Load() == before
}

func values(records []*kgo.Record) string {
	words := []string{}
	for _, each := range records {
		words = append(words, string(each.Value))
	}
	return strings.Join(words, ",")
}

func taken(record *kgo.Record) int {
	line.Say("RECORD", record.Partition, record.Offset, string(record.Value))
	number, err := strconv.Atoi(string(record.Value))
	line.Must(err)
	return number
}

// implicitly: each poll accepts the records of the one before.
func implicitly(consumer *kgo.Client) func(context.Context) {
	before := []*kgo.Record{}
	return func(polling context.Context) {
		failed := failures.Load()
		if len(before) > 0 {
			line.Say("SENT", values(before))
		}
		records := poll(consumer, polling)
		if flush(consumer, failed) && len(before) > 0 {
			line.Say("DONE", values(before))
		}
		for _, each := range records {
			taken(each)
		}
		before = records
	}
}

func explicitly(consumer *kgo.Client) func(context.Context) {
	return func(polling context.Context) {
		ended, renewed := []*kgo.Record{}, []*kgo.Record{}
		records := poll(consumer, polling)
		failed := failures.Load()
		for _, each := range records {
			number := taken(each)
			switch {
			case number%5 == 0 && each.DeliveryCount() == 1:
				each.Ack(kgo.AckRelease)
			case number%7 == 0:
				each.Ack(kgo.AckReject)
				ended = append(ended, each)
			case number%11 == 0:
				each.Ack(kgo.AckRenew)
				renewed = append(renewed, each)
			default:
				each.Ack(kgo.AckAccept)
				ended = append(ended, each)
			}
		}
		tell(consumer, ended, failed)
		failed = failures.Load()
		for _, each := range renewed {
			line.Say("RENEWED", string(each.Value))
			each.Ack(kgo.AckAccept)
		}
		tell(consumer, renewed, failed)
	}
}

func tell(consumer *kgo.Client, records []*kgo.Record, failed int64) {
	line.Say("SENT", values(records))
	if flush(consumer, failed) {
		line.Say("DONE", values(records))
	}
}
