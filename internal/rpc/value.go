package rpc

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
)

// Values of a request are read into these Go types, in either of the two formats:
//
//	None, bool, int    nil, bool, int64 or *big.Int beyond 64 bits
//	float, str, bytes  float64, string, []byte
//	list, dict         []any, dict
//	datetime           time.Time in UTC, or naiveTime without a zone
//	timedelta          time.Duration
//	UUID               uuid.UUID
//	scheduler_model    a type of package scheduler (see model.go)
//	last_visit_status  model.VisitStatus
//	paged_result, …    dict: nothing takes them as an argument

// dict is a Python dict, in the order in which it was written.
type dict []entry

type entry struct{ key, value any }

// get returns the value of a key. Of a repeated key, it returns the last one.
func (d dict) get(key string) (any, bool) {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i].key == key {
			return d[i].value, true
		}
	}
	return nil, false
}

// isNone reports whether a key's value is None, or missing.
func (d dict) isNone(key string) bool {
	value, _ := d.get(key)
	return value == nil
}

// naiveTime is a datetime without a zone, read as one in UTC.
type naiveTime struct{ time.Time }

// limits bound the allocations of a request. A reader counts them down.
type limits struct {
	depth  int    // nesting of lists and dicts
	values int    // of all kinds, in all
	used   *int64 // counts them, if not nil
	json   *int   // bytes of JSON that may be made of values; nil: maxJSON of each
}

// defaultLimits hold any batch of 10,000 objects twice over. Python's own
// msgpack stops at a depth of 512.
var defaultLimits = limits{depth: 512, values: maxValues}

const (
	maxValues = 1 << 20  // of a request; each takes 48 bytes or less, and its text
	maxText   = 16 << 20 // bytes of a text in JSON, which its reader holds several times
	maxJSON   = 32 << 20 // bytes of JSON made of a request's texts and values, in which control characters grow

	// maxArgument is the maximum length in bytes of a text that is an argument or a field. PostgreSQL
	// repeats such a text in its errors.
	maxArgument = 64 << 10
)

func tooLarge(format string, args ...any) error {
	x := valueError(format, args...)
	x.status = statusTooLarge
	return x
}

func (b *limits) spend(n int) error {
	if b.used != nil {
		*b.used += int64(n)
	}
	if b.values -= n; b.values < 0 {
		return tooLarge("the request holds too many values; send fewer at a time (%d values at most)", maxValues)
	}
	return nil
}

func (b *limits) enter() error {
	if b.depth--; b.depth < 0 {
		return errTooDeep()
	}
	return nil
}

func errTooDeep() error { return tooLarge("the request is nested too deeply") }

func (b *limits) leave() { b.depth++ }

// untagged returns the object of a known tag {swhtype: name, d: value}, and any other d unchanged. In msgpack the
// keys of a tag are bytes.
func (d dict) untagged(inJSON bool, l *limits) (any, error) {
	var name, value any
	found := 0
	for _, e := range d {
		key, _ := e.key.(string)
		if !inJSON {
			b, _ := e.key.([]byte)
			key = string(b)
		}
		switch key {
		case "swhtype":
			name = e.value
			found |= 1
		case "d":
			value = e.value
			found |= 2
		default:
			return d, nil
		}
	}
	switch {
	case found != 3:
		return d, nil
	case name == "uuid":
		return untagUUID(value)
	case name == "timedelta":
		return untagTimedelta(value)
	case name == "datetime":
		return untagDatetime(value)
	case name == "scheduler_model":
		return untagModel(value, l)
	case name == "last_visit_status":
		return visitStatusOf(value)
	case name == "bytes" && inJSON:
		return untagBytes(value)
	case name == "paged_result", name == "exception":
		return value, nil
	}
	return d, nil
}

// maxForm is above the length of any text of a UUID, a date or an integer of 64 bits.
const maxForm = 256

func untagUUID(value any) (any, error) {
	if text, ok := value.(string); ok {
		return parseUUID(text)
	}
	return nil, attributeError("'%s' object has no attribute 'replace'", typeName(value))
}

// parseUUID reads a UUID in one of the forms that Python takes.
func parseUUID(text string) (uuid.UUID, error) {
	if len(text) > maxForm {
		return uuid.UUID{}, valueError("badly formed hexadecimal UUID string")
	}
	hex := strings.NewReplacer("urn:", "", "uuid:", "").Replace(text)
	hex = strings.ReplaceAll(strings.Trim(hex, "{}"), "-", "")
	id, err := uuid.Parse(hex)
	if err != nil || len(hex) != 32 {
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
	if len(fields) > len(units) {
		return nil, typeError("a timedelta has %d components at most", len(units))
	}
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
	// It is beyond 292 years, which is longer than any real interval.
	nanos, accuracy := sum.Int64()
	if accuracy != big.Exact && (nanos == 1<<63-1 || nanos == -1<<63) {
		return nil, &exception{class: "OverflowError", args: []string{"timedelta is out of range"}}
	}
	return time.Duration(nanos).Round(time.Microsecond), nil
}

func untagDatetime(value any) (any, error) {
	if text, ok := value.(string); ok {
		return parseTime(text)
	}
	return nil, typeError("expecting a string, got %s", typeName(value))
}

// parseTime reads an ISO 8601 date, which may lack a zone.
func parseTime(text string) (any, error) {
	if len(text) > maxForm {
		return nil, badTime(text)
	}
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
	return nil, badTime(text)
}

func badTime(text string) error {
	return &exception{class: "ParseError", module: "iso8601.iso8601", args: []string{fmt.Sprintf("Unable to parse date string %q", brief(text))}}
}

func visitStatusOf(value any) (any, error) {
	switch status := value.(type) {
	case model.VisitStatus:
		return status, nil
	case string:
		switch s := model.VisitStatus(status); s {
		case model.VisitSuccessful, model.VisitFailed, model.VisitNotFound:
			return s, nil
		}
		return nil, valueError("'%s' is not a valid LastVisitStatus", status)
	}
	return nil, valueError("%v is not a valid LastVisitStatus", value)
}
