// Package line is the line protocol of ../../README.md.
package line

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Arguments are the program's, name=value.
var Arguments = func() map[string]string {
	arguments := map[string]string{}
	for _, each := range os.Args[1:] {
		name, value, _ := strings.Cut(each, "=")
		arguments[name] = value
	}
	return arguments
}()

var saying sync.Mutex

// Say writes one line at once.
func Say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Fprintln(os.Stdout, words...)
}

// Milliseconds is an argument that is a duration.
func Milliseconds(name string) time.Duration {
	value, err := strconv.Atoi(Arguments[name])
	Must(err)
	return time.Duration(value) * time.Millisecond
}

// Numbers are partitions, in order; "-" for none.
func Numbers[T ~int | ~int32](partitions []T) string {
	if len(partitions) == 0 {
		return "-"
	}
	sorted := append([]T{}, partitions...)
	sort.Slice(sorted, func(a, b int) bool { return sorted[a] < sorted[b] })
	words := []string{}
	for _, each := range sorted {
		words = append(words, strconv.Itoa(int(each)))
	}
	return strings.Join(words, ",")
}

// Pairs are offsets by partition; "-" for none.
func Pairs(offsets map[int32]int64) string {
	partitions := []int32{}
	for each := range offsets {
		partitions = append(partitions, each)
	}
	sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
	words := []string{}
	for _, each := range partitions {
		words = append(words, fmt.Sprintf("%d:%d", each, offsets[each]))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

// ParsedPairs reads what Pairs writes.
func ParsedPairs(text string) map[int32]int64 {
	offsets := map[int32]int64{}
	for _, pair := range strings.Split(text, ",") {
		partition, offset, _ := strings.Cut(pair, ":")
		offsets[ParsedNumbers(partition)[0]] = int64(atoi(offset))
	}
	return offsets
}

// ParsedNumbers reads what Numbers writes.
func ParsedNumbers(text string) []int32 {
	numbers := []int32{}
	for _, each := range strings.Split(text, ",") {
		numbers = append(numbers, int32(atoi(each)))
	}
	return numbers
}

func atoi(text string) int {
	value, err := strconv.Atoi(text)
	Must(err)
	return value
}

// Closing is closed when the driver says `close`, and when the driver is gone.
func Closing() <-chan struct{} {
	closing := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() && strings.TrimSpace(lines.Text()) != "close" {
		}
		close(closing)
	}()
	return closing
}

// Answer answers each line of admin mode; code tells Kafka's error code, or -1.
func Answer(answer func(verb string, words []string) (string, error), code func(error) int) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		said, err := answer(words[0], words[1:])
		if err != nil {
			Say("ERROR", code(err), strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			Say("OK", said)
		}
	}
}

// Values are what produce mode writes.
func Values() []string {
	values := []string{}
	for number := 0; number < atoi(Arguments["count"]); number++ {
		values = append(values, fmt.Sprintf("%s-%06d", Arguments["prefix"], number))
	}
	return values
}

// Aborted are what the transaction that is aborted writes.
func Aborted() []string {
	values := Values()
	for at := range values {
		values[at] = "aborted-" + values[at]
	}
	return values
}

// ReadCommitted tells whether a consumer is to leave out what is not committed.
func ReadCommitted() bool { return Arguments["isolation"] == "read_committed" }

// AsItComes tells whether a consumer keeps its client's own settings and has it commit by itself.
func AsItComes() bool { return Arguments["settings"] == "default" }

// Must ends the program with what went wrong.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
