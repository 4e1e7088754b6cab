// kfake, the in-memory Kafka of franz-go's tests, as a process: `kfake PORT`. It keeps everything in memory.
package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	// One broker, one partition per topic and sessions of (up to) half an hour, as the other servers are set.
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1), kfake.GroupMaxSessionTimeout(30*time.Minute),
		kfake.BrokerConfigs(map[string]string{"group.consumer.session.timeout.ms": "1800000"}))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
