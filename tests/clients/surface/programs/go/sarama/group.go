package main

import (
	"context"
	"reflect"

	"surface/surface"

	"github.com/IBM/sarama"
)

// handler runs the session's methods once and ends the session.
type handler struct {
	session, claim *surface.Part
	end            context.CancelFunc
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if claim.Partition() != 0 {
		<-session.Context().Done() // the session ends with the first of its claims
		return nil
	}
	defer h.end()
	h.session.Local("what the join came to", "MemberID", "Context")
	h.session.Local("marks what a commit sends", "MarkOffset", "MarkMessage", "ResetOffset")
	h.claim.Local("what the claim is of", "Topic", "Partition")
	h.claim.Local("what the last fetch said", "HighWaterMarkOffset")
	on, of := h.session.On(session), h.claim.On(claim)
	on.Call("Claims", "")
	on.Call("GenerationID", "")
	of.Call("InitialOffset", "")
	of.Do("Messages", "", func(context.Context) (any, error) {
		first := <-claim.Messages()
		session.MarkMessage(first, "why")
		return []any{first.Offset, first.Value}, nil
	})
	on.Call("Commit", "")
	return nil
}

func consumeInGroup() {
	part := surface.Of("group", reflect.TypeFor[sarama.ConsumerGroup]())
	of := handler{
		session: surface.Of("session", reflect.TypeFor[sarama.ConsumerGroupSession]()),
		claim:   surface.Of("claim", reflect.TypeFor[sarama.ConsumerGroupClaim]()),
	}
	config := settings()
	config.Consumer.Group.InstanceId = surface.Name("instance")
	member := surface.Must(sarama.NewConsumerGroup([]string{surface.Bootstrap}, surface.Name("members"), config))
	part.On(member).Local("notes it for later fetches", "Pause", "Resume", "PauseAll", "ResumeAll")
	part.On(member).Local("a channel of what the session came to", "Errors")
	consumed := make(chan error, 1)
	limited, cancel := context.WithCancel(surface.Background)
	of.end = cancel
	go func() { consumed <- member.Consume(limited, []string{one}, of) }()
	err := <-consumed
	on := part.On(member)
	on.Do("Consume", "", func(context.Context) (any, error) { return nil, err })
	client := surface.Must(sarama.NewClusterAdmin([]string{surface.Bootstrap}, settings()))
	admins.On(client).Call("DescribeConsumerGroups", "with a member", []string{surface.Name("members")})
	admins.On(client).Call("DeleteConsumerGroup", "with a member", surface.Name("members"))
	admins.On(client).Call("DeleteConsumerGroupOffset", "of a member's topic", surface.Name("members"), one, int32(0))
	admins.On(client).Call("RemoveMemberFromConsumerGroup", "", surface.Name("members"), []string{surface.Name("instance")})
	surface.Must(true, client.Close())
	on.Call("Close", "")
	part.End()
	of.session.End()
	of.claim.End()
}
