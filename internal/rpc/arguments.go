package rpc

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// arguments are the arguments of a call. The peer declares their types and
// checks none: most go into a query as they are. The methods here take what
// PostgreSQL would take for the peer (a number, or its text), and refuse the
// rest; the first refusal is err.
type arguments struct {
	dict
	err error
}

func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *arguments) wrong(name, want string, value any) {
	a.fail(typeError("argument '%s' must be %s, not %s", name, want, typeName(value)))
}

// isNone says that an argument is None, or not given.
func (a *arguments) isNone(name string) bool {
	value, _ := a.get(name)
	return value == nil
}

// truth is the truth of an argument, as Python has it; otherwise if not given.
func (a *arguments) truth(name string, otherwise bool) bool {
	value, given := a.get(name)
	if !given {
		return otherwise
	}
	return truth(value)
}

// truth is Python's bool of a value.
func truth(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []byte:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case dict:
		return len(v) > 0
	case time.Duration:
		return v != 0
	}
	return true
}

// text is a text; "" if it is None or not given.
func (a *arguments) text(name string) string {
	value, _ := a.get(name)
	if value == nil {
		return ""
	}
	return a.textOf(name, value)
}

func (a *arguments) textOf(name string, value any) string {
	text, ok := value.(string)
	if !ok {
		a.wrong(name, "str", value)
	}
	return text
}

// optionalText is a text, or nil.
func (a *arguments) optionalText(name string) *string {
	if a.isNone(name) {
		return nil
	}
	text := a.text(name)
	return &text
}

// texts is a list of texts, or one text; none if it is false.
func (a *arguments) texts(name string) []string {
	value, _ := a.get(name)
	if !truth(value) {
		return nil
	}
	if text, ok := value.(string); ok {
		return []string{text}
	}
	elements := a.list(name)
	texts := make([]string, len(elements))
	for i, element := range elements {
		texts[i] = a.textOf(name, element)
	}
	return texts
}

// list is a list of anything.
func (a *arguments) list(name string) []any {
	value, _ := a.get(name)
	elements, ok := value.([]any)
	if !ok {
		a.fail(typeError("'%s' object is not iterable", typeName(value)))
	}
	return elements
}

// integer is an integer; otherwise if it is not given.
func (a *arguments) integer(name string, otherwise int64) int64 {
	value, given := a.get(name)
	if !given {
		return otherwise
	}
	return a.integerOf(name, value)
}

func (a *arguments) integerOf(name string, value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case string:
		i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			a.fail(&exception{class: "InvalidTextRepresentation", module: "psycopg.errors", args: []any{"argument '" + name + "' is no integer"}})
		}
		return i
	}
	a.wrong(name, "int", value)
	return 0
}

// integers is a list of integers.
func (a *arguments) integers(name string) []int64 {
	elements := a.list(name)
	integers := make([]int64, len(elements))
	for i, element := range elements {
		integers[i] = a.integerOf(name, element)
	}
	return integers
}

// limit is how many rows are wanted at most. all says that it is None or not
// given.
func (a *arguments) limit(name string) (n int, all bool) {
	if a.isNone(name) {
		return 0, true
	}
	i := a.integer(name, 0)
	if i < 0 {
		a.fail(&exception{class: "InvalidRowCountInLimitClause", module: "psycopg.errors", args: []any{"LIMIT must not be negative"}})
	}
	return int(i), false
}

// time is a moment; the zero time if it is None or not given.
func (a *arguments) time(name string) time.Time {
	value, _ := a.get(name)
	switch v := value.(type) {
	case nil:
	case time.Time:
		return v
	case naiveTime:
		return v.Time
	case string:
		t, err := parseTime(v)
		if err != nil {
			a.fail(&exception{class: "InvalidDatetimeFormat", module: "psycopg.errors", args: []any{"argument '" + name + "' is no timestamp"}})
			break
		}
		if naive, ok := t.(naiveTime); ok {
			return naive.Time
		}
		return t.(time.Time)
	default:
		a.wrong(name, "datetime", value)
	}
	return time.Time{}
}

// cooldown is a duration; 0 if it is false, otherwise if not given.
func (a *arguments) cooldown(name string, otherwise time.Duration) time.Duration {
	value, given := a.get(name)
	switch {
	case !given:
		return otherwise
	case !truth(value):
		return 0
	}
	d, ok := value.(time.Duration)
	if !ok {
		a.wrong(name, "timedelta", value)
	}
	return d
}

// float is a number; 0 if it is None or not given.
func (a *arguments) float(name string) float64 {
	value, _ := a.get(name)
	switch v := value.(type) {
	case nil:
	case int64:
		return float64(v)
	case float64:
		if math.IsNaN(v) {
			a.wrong(name, "a number", value)
		}
		return v
	default:
		a.wrong(name, "float", value)
	}
	return 0
}

// uuid is a UUID, or its text; not valid if it is false or not given.
func (a *arguments) uuid(name string) uuid.NullUUID {
	value, _ := a.get(name)
	if !truth(value) {
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: a.uuidOf(name, value), Valid: true}
}

func (a *arguments) uuidOf(name string, value any) uuid.UUID {
	switch v := value.(type) {
	case uuid.UUID:
		return v
	case string:
		id, err := parseUUID(v)
		if err != nil {
			a.fail(&exception{class: "InvalidTextRepresentation", module: "psycopg.errors", args: []any{"argument '" + name + "' is no UUID"}})
		}
		return id
	}
	a.wrong(name, "UUID", value)
	return uuid.UUID{}
}

// object is a dict as JSON; nil if it is None or not given.
func (a *arguments) object(name string) json.RawMessage {
	value, _ := a.get(name)
	if value == nil {
		return nil
	}
	if _, ok := value.(dict); !ok {
		a.wrong(name, "dict", value)
		return nil
	}
	text, err := appendJSONValue(nil, value)
	if err != nil {
		a.fail(err)
	}
	return text
}

// model is an argument of a class of the peer's model.
func model[T any](a *arguments, name string) T {
	value, _ := a.get(name)
	return modelOf[T](a, value)
}

// models is a list of such objects.
func models[T any](a *arguments, name string) []T {
	elements := a.list(name)
	objects := make([]T, len(elements))
	for i, element := range elements {
		objects[i] = modelOf[T](a, element)
	}
	return objects
}

func modelOf[T any](a *arguments, value any) T {
	object, ok := value.(T)
	if !ok {
		a.fail(attributeError("'%s' object has no attribute 'to_dict'", typeName(value)))
	}
	return object
}
