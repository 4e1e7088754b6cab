// Verbs and faults of a coordinatord over HTTP, from Go's testing.
package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 20 * time.Second

// Coordinatord is a coordinatord of one test alone, and its control.
type Coordinatord struct {
	t       *testing.T
	Brokers []string
	control string
}

// Start one; it stops when the test ends.
func Start(t *testing.T) *Coordinatord {
	t.Helper()
	directory := t.TempDir()
	ready := filepath.Join(directory, "ready.json")
	program := os.Getenv("COORDINATORD")
	if program == "" {
		program = "coordinatord"
	}
	process := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--ready-file", ready, "--data-dir", filepath.Join(directory, "data"), "--set", "test.control.enable=true",
		"--set", "group.initial.rebalance.delay.ms=0", "--set", "log.flush=never",
		"--set", "log.retention.ms=-1") // or records are gone as well when offsets expire, after a week
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait()
	})
	var told struct{ Listeners, Admin []string }
	for ends := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(ready); err == nil {
			if err := json.Unmarshal(text, &told); err != nil {
				t.Fatal(err)
			}
			return &Coordinatord{t, told.Listeners, told.Admin[0] + "/test"}
		}
		if time.Now().After(ends) {
			t.Fatal("coordinatord has not started")
		}
	}
}

// Told is what the control answers, as far as these tests read it.
type Told struct {
	Fault, Hits int
	MemberID    string `json:"member_id"`
	State       string
	Members     []struct {
		MemberID string `json:"member_id"`
	}
	Error string
}

// Ask the control. Arguments are name=value.
func (c *Coordinatord) Ask(method, path string, arguments ...string) (told Told) {
	c.t.Helper()
	query := url.Values{}
	for _, each := range arguments {
		name, value, _ := strings.Cut(each, "=")
		query.Set(name, value)
	}
	request, err := http.NewRequest(method, c.control+path+"?"+query.Encode(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil || answer.StatusCode != http.StatusOK {
		c.t.Fatal(answer.Status, told.Error, err)
	}
	return told
}

func TestACommitIsTriedAgain(t *testing.T) {
	kafka := Start(t)
	send(t, kafka, "coffee")
	consumer := consume(t, kafka)
	next(t, consumer)
	fault := kafka.Ask("POST", "/faults", "kind=fail", "api=OffsetCommit", "error=COORDINATOR_LOAD_IN_PROGRESS", "times=2")
	if err := consumer.CommitUncommittedOffsets(context.Background()); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/faults/%d", fault.Fault)
	if hits := kafka.Ask("GET", path).Hits; hits != 2 {
		t.Errorf("it was hit %d times", hits)
	}
	kafka.Ask("DELETE", path)
}

func TestAnExpelledMemberComesBack(t *testing.T) {
	kafka := Start(t)
	send(t, kafka, "coffee")
	next(t, consume(t, kafka)) // franz-go goes on in the background
	gone := kafka.Ask("POST", "/groups/billing/members/a/expire").MemberID
	for ends := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		group := kafka.Ask("GET", "/groups/billing")
		if group.State == "Stable" && len(group.Members) == 1 && group.Members[0].MemberID != gone {
			return
		}
		if time.Now().After(ends) {
			t.Fatal("it has not come back:", group)
		}
	}
}

func TestOffsetsExpire(t *testing.T) {
	kafka := Start(t)
	send(t, kafka, "coffee")
	first := consume(t, kafka)
	next(t, first)
	if err := first.CommitUncommittedOffsets(context.Background()); err != nil {
		t.Fatal(err)
	}
	first.Close()
	kafka.Ask("POST", "/clock/advance", fmt.Sprintf("by_ms=%d", (8*24*time.Hour).Milliseconds()))
	if value := next(t, consume(t, kafka)); value != "coffee" { // the group begins anew
		t.Errorf("it has read %q", value)
	}
}

func send(t *testing.T, kafka *Coordinatord, value string) {
	t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers...), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte(value)}
	if err := producer.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, kafka *Coordinatord) *kgo.Client {
	t.Helper()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers...), kgo.ClientID("a"), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consumer.Close)
	return consumer
}

func next(t *testing.T, consumer *kgo.Client) string {
	t.Helper()
	within, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		fetches := consumer.PollFetches(within)
		if err := within.Err(); err != nil {
			t.Fatal("no record in time")
		}
		for _, record := range fetches.Records() {
			return string(record.Value)
		}
	}
}
