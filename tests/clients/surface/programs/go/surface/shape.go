package surface

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Code is the name of an error code of the protocol; nothing for 0.
func Code(code int16) string {
	var named *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &named) {
		return named.Message
	}
	return ""
}

// ErrorName says which error it is; a program sets it for its client's errors.
var ErrorName = func(err error) string { return err.Error() }

const (
	deepest = 12
	// What is chance is to put nothing into another order.
	chance      = "chance"
	since2017Ms = 1_500_000_000_000
)

// Shape makes plain JSON of a result: exported fields, lists in an order that is no chance.
func Shape(value any) any { return shape(reflect.ValueOf(value), deepest) }

func shape(value reflect.Value, deeper int) any {
	if !value.IsValid() || deeper == 0 {
		return nil
	}
	if plain, done := special(value); done {
		return plain
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return shape(value.Elem(), deeper-1)
	case reflect.Struct:
		return fields(value, deeper)
	case reflect.Map:
		entries := map[string]any{}
		for _, key := range value.MapKeys() {
			entries[fmt.Sprint(shape(key, deeper-1))] = shape(value.MapIndex(key), deeper-1)
		}
		return entries
	case reflect.Slice, reflect.Array:
		items := make([]any, value.Len())
		for number := range items {
			items[number] = shape(value.Index(number), deeper-1)
		}
		slices.SortFunc(items, func(one, other any) int { return strings.Compare(text(one), text(other)) })
		return items
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return nil
	}
	if value.CanInt() && value.Int() > since2017Ms && value.Int() != math.MaxInt64 {
		return chance
	}
	return value.Interface()
}

func text(item any) string {
	if number, is := item.(int32); is {
		return fmt.Sprintf("%010d", number)
	}
	return string(Must(json.Marshal(item)))
}

// special is for what is not told by its fields.
func special(value reflect.Value) (any, bool) {
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, true
	}
	if value.CanInterface() {
		switch it := value.Interface().(type) {
		case time.Time:
			if it.IsZero() || it.UnixMilli() <= 0 {
				return "no time", true
			}
			return it.UnixMilli(), true
		case time.Duration:
			return it.String(), true
		case []byte:
			if it == nil || utf8.Valid(it) {
				return string(it), true
			}
			return fmt.Sprintf("%d bytes", len(it)), true
		case error:
			return ErrorName(it), true
		}
	}
	if value.Kind() == reflect.Array && value.Len() == 16 && value.Type().Elem().Kind() == reflect.Uint8 {
		if value.IsZero() {
			return "no id", true
		}
		return "ID", true
	}
	return nil, false
}

func fields(value reflect.Value, deeper int) any {
	entries := map[string]any{}
	for number := range value.NumField() {
		field := value.Type().Field(number)
		switch {
		case field.Name == "Cluster" && field.Type.Kind() == reflect.String:
			entries["ClusterID"] = value.Field(number).String()
		case field.Name == "ProducerID":
			entries[field.Name] = chance
		case field.IsExported():
			entries[field.Name] = shape(value.Field(number), deeper-1)
		}
	}
	return entries
}
