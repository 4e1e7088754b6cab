// franz-go: kadm.Client, kgo.Client and kgo.GroupTransactSession.
package main

import (
	"errors"
	"strings"

	"surface/surface"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	surface.ErrorName = func(err error) string {
		var named *kerr.Error
		if errors.As(err, &named) {
			return named.Message
		}
		if strings.Contains(err.Error(), "broker is too old") {
			return "broker is too old"
		}
		return err.Error()
	}
	administer()
	runClients()
	runSession()
}

func open(options ...kgo.Opt) *kgo.Client {
	all := append([]kgo.Opt{kgo.SeedBrokers(surface.Bootstrap), kgo.ClientID(surface.Prefix)}, options...)
	return surface.Must(kgo.NewClient(all...))
}
