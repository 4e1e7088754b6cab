// kafka-go: Client, Conn, Dialer, Reader, Writer, ConsumerGroup and Generation.
package main

import (
	"errors"
	"strconv"
	"strings"

	"surface/surface"

	"github.com/segmentio/kafka-go"
)

var (
	one, two, absent = surface.Name("one"), surface.Name("two"), surface.Name("absent")
	group, nobody    = surface.Name("group"), surface.Name("nobody")
	transport        = &kafka.Transport{ClientID: surface.Prefix}
	dialer           = &kafka.Dialer{ClientID: surface.Prefix, Timeout: surface.CallTimeout}
)

func main() {
	surface.ErrorName = func(err error) string {
		var code kafka.Error
		if errors.As(err, &code) {
			return surface.Code(int16(code))
		}
		return err.Error()
	}
	client := &kafka.Client{Addr: kafka.TCP(surface.Bootstrap), Transport: transport, Timeout: surface.CallTimeout}
	runTopics(client)
	runRecords(client)
	runOffsets(client)
	runMembership(client)
	runTransactions(client)
	runRest(client)
	clients.End()
	runConnections()
	writeAndRead()
	runGroup()
	transport.CloseIdleConnections()
}

func value(number int) []byte { return []byte("value-" + strconv.Itoa(number)) }

func messages(count int) []kafka.Message {
	made := make([]kafka.Message, count)
	for number := range made {
		made[number] = kafka.Message{Value: value(number), Time: surface.Time(number)}
	}
	return made
}

func host() (string, int) {
	name, port, _ := strings.Cut(surface.Bootstrap, ":")
	return name, surface.Must(strconv.Atoi(port))
}
