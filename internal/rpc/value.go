package rpc

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
)

// What a request holds is read into these Go types, whichever of the two formats
// it is written in:
//
//	None, bool, int    nil, bool, int64 or *big.Int beyond 64 bits
//	float, str, bytes  float64, string, []byte
//	list, dict         []any, dict
//	datetime           time.Time in UTC, or naiveTime without a zone
//	timedelta          time.Duration
//	UUID               uuid.UUID
//	scheduler_model    a type of package scheduler (see model.go)
//	last_visit_status  scheduler.VisitStatus
//	paged_result, …    dict: nothing takes them as an argument

// dict is a Python dict, in the order in which it was written.
type dict []entry

type entry struct{ key, value any }

// get is the value of a key; of one that is there twice, the last counts.
func (d dict) get(key string) (any, bool) {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i].key == key {
			return d[i].value, true
		}
	}
	return nil, false
}

// naiveTime is a datetime without a zone, read as one in UTC.
type naiveTime struct{ time.Time }

// limits bound what a request may make us allocate.
type limits struct {
	depth  int // of lists and dicts in one another
	values int // of all kinds, in all
}

// defaultLimits hold any batch of 10,000 objects many times over. Python's own
// msgpack stops at a depth of 512.
var defaultLimits = limits{depth: 512, values: 4_000_000}

// budget is what is left of limits.
type budget struct{ limits }

func (b *budget) spend(n int) error {
	if b.values -= n; b.values < 0 {
		return &exception{class: "ValueError", args: []any{"the request holds too many values"}, status: statusTooLarge}
	}
	return nil
}

func (b *budget) enter() error {
	if b.depth--; b.depth < 0 {
		return &exception{class: "ValueError", args: []any{"the request is nested too deeply"}, status: statusTooLarge}
	}
	return nil
}

func (b *budget) leave() { b.depth++ }

// untag makes the object that a tagged value stands for. known says whether the
// tag is one that we know: where it isn't, the value stays the dict that it is.
func untag(tag, value any) (object any, known bool, err error) {
	name, _ := tag.(string)
	switch name {
	case "uuid":
		object, err = untagUUID(value)
	case "timedelta":
		object, err = untagTimedelta(value)
	case "datetime":
		object, err = untagDatetime(value)
	case "scheduler_model":
		object, err = untagModel(value)
	case "last_visit_status":
		object, err = visitStatusOf(value)
	case "paged_result", "exception":
		object = value
	default:
		return nil, false, nil
	}
	return object, true, err
}

func untagUUID(value any) (any, error) {
	text, ok := value.(string)
	if !ok {
		return nil, attributeError("'%s' object has no attribute 'replace'", typeName(value))
	}
	return parseUUID(text)
}

// parseUUID reads a UUID in one of the forms that Python takes.
func parseUUID(text string) (uuid.UUID, error) {
	hex := strings.NewReplacer("urn:", "", "uuid:", "").Replace(text)
	hex = strings.ReplaceAll(strings.Trim(hex, "{}"), "-", "")
	if len(hex) != 32 {
		return uuid.UUID{}, valueError("badly formed hexadecimal UUID string")
	}
	id, err := uuid.Parse(hex)
	if err != nil {
		return uuid.UUID{}, valueError("badly formed hexadecimal UUID string")
	}
	return id, nil
}

func untagTimedelta(value any) (any, error) {
	fields, ok := value.(dict)
	if !ok {
		return nil, typeError("a timedelta must be a mapping, not %s", typeName(value))
	}
	units := map[string]time.Duration{
		"days": 24 * time.Hour, "seconds": time.Second, "microseconds": time.Microsecond,
		"milliseconds": time.Millisecond, "minutes": time.Minute, "hours": time.Hour, "weeks": 7 * 24 * time.Hour,
	}
	sum := new(big.Float).SetPrec(128)
	for _, e := range fields {
		name, _ := e.key.(string)
		unit, known := units[name]
		if !known {
			return nil, typeError("'%v' is an invalid keyword argument for __new__()", e.key)
		}
		n := new(big.Float).SetPrec(128)
		switch v := e.value.(type) {
		case int64:
			n.SetInt64(v)
		case float64:
			if v != v || v-v != 0 {
				return nil, valueError("a timedelta cannot be made of %v", v)
			}
			n.SetFloat64(v)
		default:
			return nil, typeError("unsupported type for timedelta %s component: %s", name, typeName(e.value))
		}
		sum.Add(sum, n.Mul(n, new(big.Float).SetInt64(int64(unit))))
	}
	// Beyond 292 years: longer than anything an interval is used for.
	nanos, accuracy := sum.Int64()
	if accuracy != big.Exact && (nanos == 1<<63-1 || nanos == -1<<63) {
		return nil, &exception{class: "OverflowError", args: []any{"timedelta is out of range"}}
	}
	return time.Duration(nanos).Round(time.Microsecond), nil
}

func untagDatetime(value any) (any, error) {
	text, ok := value.(string)
	if !ok {
		return nil, typeError("expecting a string, got %s", typeName(value))
	}
	return parseTime(text)
}

// parseTime reads an ISO 8601 date, which may lack a zone.
func parseTime(text string) (any, error) {
	text = strings.Replace(strings.Replace(text, " ", "T", 1), ",", ".", 1)
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return naiveTime{t}, nil
		}
	}
	return nil, &exception{class: "ParseError", module: "iso8601.iso8601", args: []any{fmt.Sprintf("Unable to parse date string %q", text)}}
}

func visitStatusOf(value any) (any, error) {
	switch status := value.(type) {
	case scheduler.VisitStatus:
		return status, nil
	case string:
		switch s := scheduler.VisitStatus(status); s {
		case scheduler.VisitSuccessful, scheduler.VisitFailed, scheduler.VisitNotFound:
			return s, nil
		}
		return nil, valueError("'%s' is not a valid LastVisitStatus", status)
	}
	return nil, valueError("%v is not a valid LastVisitStatus", value)
}

// typeName is the name of a value's Python type.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case []any:
		return "list"
	case dict:
		return "dict"
	case time.Time, naiveTime:
		return "datetime"
	case time.Duration:
		return "timedelta"
	case uuid.UUID:
		return "UUID"
	case scheduler.VisitStatus:
		return "LastVisitStatus"
	}
	return modelName(value)
}
