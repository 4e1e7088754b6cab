package main

import (
	"bytes"
	"io"

	"surface/surface"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// encoded is a record set as it is in a request.
func encoded(set protocol.RecordSet) io.Reader {
	var buffer bytes.Buffer
	surface.Must(set.WriteTo(&buffer))
	return &buffer
}

// read is what a fetch brought.
func read(answer *kafka.FetchResponse) (values []any) {
	for {
		record, err := answer.Records.ReadRecord()
		if err != nil {
			return values
		}
		values = append(values, []any{record.Offset, string(surface.Must(protocol.ReadAll(record.Value)))})
	}
}
