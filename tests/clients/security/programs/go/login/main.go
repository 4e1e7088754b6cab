// franz-go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type told struct {
	Bootstrap, Topic, Group, Protocol, Ca, Mechanism, User, Password, Token, Key string
	Timeout                                                                      float64 `json:"timeout_s"`
}

func main() {
	var what told
	if err := json.Unmarshal([]byte(os.Args[1]), &what); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(what.Timeout*float64(time.Second)))
	defer cancel()
	value, err := logIn(ctx, what)
	if err != nil {
		fmt.Printf("failed %T: %s\n", err, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("ok", value)
}

func options(what told) ([]kgo.Opt, error) {
	made := []kgo.Opt{
		kgo.SeedBrokers(what.Bootstrap), kgo.DefaultProduceTopic(what.Topic), kgo.ConsumerGroup(what.Group),
		kgo.ConsumeTopics(what.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordRetries(3),
		kgo.AllowAutoTopicCreation(),
	}
	if strings.HasSuffix(what.Protocol, "SSL") {
		pool := x509.NewCertPool()
		content, err := os.ReadFile(what.Ca)
		if err != nil {
			return nil, err
		}
		pool.AppendCertsFromPEM(content)
		config := &tls.Config{RootCAs: pool}
		if what.Key != "" {
			pair, err := tls.LoadX509KeyPair(what.Key, what.Key)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		made = append(made, kgo.DialTLSConfig(config))
	}
	switch what.Mechanism {
	case "PLAIN":
		made = append(made, kgo.SASL(plain.Auth{User: what.User, Pass: what.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		made = append(made, kgo.SASL(scram.Auth{User: what.User, Pass: what.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		made = append(made, kgo.SASL(scram.Auth{User: what.User, Pass: what.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		made = append(made, kgo.SASL(oauth.Auth{Token: what.Token}.AsMechanism()))
	}
	return made, nil
}

func logIn(ctx context.Context, what told) (string, error) {
	made, err := options(what)
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(made...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			return string(record.Value), client.CommitUncommittedOffsets(ctx)
		}
	}
}
