// Package surface runs the methods of a client, tells how each ends, and finds those that nobody runs.
//
// It prints the lines of ../../README.md.
package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// CallTimeout ends a call that gets no answer.
const CallTimeout = 10 * time.Second

// settling is how long what a call has set going may take to be sent.
const settling = 10 * time.Millisecond

var (
	// Bootstrap is where to connect, Prefix begins every name that this run makes.
	Bootstrap, Prefix = argument("bootstrap"), argument("prefix")
	// began is when the first record was made.
	began = time.Now().Add(-time.Minute).Truncate(time.Second)
	// Background is for what ends by itself.
	Background = context.Background()
)

func argument(name string) string {
	for _, each := range os.Args[1:] {
		if value, found := strings.CutPrefix(each, name+"="); found {
			return value
		}
	}
	panic("no argument " + name + "=")
}

// Name is a topic, a group or an id of this run.
func Name(what string) string { return Prefix + "-" + what }

// Time is when a record was made: a second after the one before it.
func Time(number int) time.Time { return began.Add(time.Duration(number) * time.Second) }

// Part is one type of the client, with the methods that its reflection names.
type Part struct {
	name string
	all  []string
	seen map[string]bool
}

// Of is a part for the methods of a type: Of("admin", reflect.TypeFor[sarama.ClusterAdmin]()).
func Of(name string, kind reflect.Type) *Part {
	part := &Part{name: name, seen: map[string]bool{}}
	for number := range kind.NumMethod() {
		part.all = append(part.all, kind.Method(number).Name)
	}
	return part
}

type line struct {
	Part    string  `json:"part"`
	Method  string  `json:"method"`
	Case    string  `json:"case,omitempty"`
	Outcome string  `json:"outcome"`
	Detail  any     `json:"detail"`
	Began   float64 `json:"began,omitempty"`
	Ended   float64 `json:"ended,omitempty"`
}

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func (part *Part) say(method, text, outcome string, detail any, began float64) {
	part.seen[method] = true
	ended := 0.0
	if began != 0 {
		ended = now()
	}
	said, err := json.Marshal(line{part.name, method, text, outcome, detail, began, ended})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(said))
}

// Local lists methods that reach no broker.
func (part *Part) Local(why string, methods ...string) {
	for _, method := range methods {
		part.known(method)
		part.say(method, "", "local", why, 0)
	}
}

// Local lists methods that reach no broker, and calls those that take no arguments.
func (target Target) Local(why string, methods ...string) {
	for _, method := range methods {
		target.known(method)
		function := reflect.ValueOf(target.object).MethodByName(method).Type()
		needed := function.NumIn()
		if function.IsVariadic() {
			needed--
		}
		if needed > 0 && function.In(0) == reflect.TypeFor[context.Context]() {
			needed--
		}
		began := 0.0
		if needed == 0 {
			time.Sleep(settling)
			began = now()
			_, _ = Invoke(Background, target.object, method) // some refuse to be called for nothing
			time.Sleep(settling)
		}
		target.say(method, "", "local", why, began)
	}
}

func (part *Part) known(method string) {
	if !slices.Contains(part.all, method) {
		panic(part.name + " has no method " + method)
	}
}

// Do runs a case of a method that is more than one call.
func (part *Part) Do(method, text string, do func(context.Context) (any, error)) {
	part.known(method)
	type end struct {
		value any
		err   error
	}
	ended, start := make(chan end, 1), now()
	limited, cancel := context.WithTimeout(Background, CallTimeout)
	defer cancel()
	go func() {
		value, err := do(limited)
		ended <- end{value, err}
	}()
	select {
	case how := <-ended:
		if how.err != nil {
			part.say(method, text, "error", ErrorName(how.err), start)
		} else {
			part.say(method, text, "ok", Shape(how.value), start)
		}
	case <-time.After(CallTimeout + time.Second):
		part.say(method, text, "error", "no answer", start)
	}
}

// Target is one object of the part's type.
type Target struct {
	*Part
	object any
}

// On is for calls of this object.
func (part *Part) On(object any) Target { return Target{part, object} }

// Call calls a method by its name. A context is put before the arguments of a method that begins with one.
func (target Target) Call(method, text string, arguments ...any) {
	target.Do(method, text, func(limited context.Context) (any, error) {
		return Invoke(limited, target.object, method, arguments...)
	})
}

// Invoke calls a method by its name; its results, without an error that is the last of them.
func Invoke(limited context.Context, target any, method string, arguments ...any) (any, error) {
	function := reflect.ValueOf(target).MethodByName(method)
	kind := function.Type()
	if kind.NumIn() > 0 && kind.In(0) == reflect.TypeFor[context.Context]() {
		arguments = append([]any{limited}, arguments...)
	}
	in := make([]reflect.Value, len(arguments))
	for number, argument := range arguments {
		in[number] = reflect.ValueOf(argument)
		if argument == nil {
			in[number] = reflect.Zero(kind.In(number))
		}
	}
	var values []any
	out := function.Call(in)
	for number, value := range out {
		if err, failed := value.Interface().(error); failed && number == len(out)-1 {
			return nil, err
		}
		if value.Type() != reflect.TypeFor[error]() {
			values = append(values, value.Interface())
		}
	}
	if len(values) == 1 {
		return values[0], nil
	}
	return values, nil
}

// End tells which methods no case has run.
func (part *Part) End() {
	for _, method := range part.all {
		if !part.seen[method] {
			part.say(method, "", "not covered", nil, 0)
		}
	}
}

// Mine is a map without the topics and groups of others.
func Mine[Map ~map[string]Value, Value any](all Map) Map {
	mine := Map{}
	for name, value := range all {
		if strings.HasPrefix(name, Prefix) {
			mine[name] = value
		}
	}
	return mine
}

// MineOf is a list of names without those of others.
func MineOf(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, Prefix) })
}

// Until waits for what a broker tells only a moment after it has been changed.
func Until(holds func() bool) {
	for range 500 {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	panic("waited too long")
}

// Must ends the program on an error of a set-up.
func Must[Value any](value Value, err error) Value {
	if err != nil {
		panic(err)
	}
	return value
}
