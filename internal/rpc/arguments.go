package rpc

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Kinds of arguments. The Python scheduler declares the types of arguments and checks none: most go into a query
// unchanged. These kinds accept the values that PostgreSQL would accept from the Python scheduler (a number, or its
// text), and refuse the rest. None, and other values that are false in Python, become a type's zero value if a kind
// allows it.

// truth returns Python's bool of a value.
func truth(value any) bool {
	switch v := value.(type) {
	case []byte:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case dict:
		return len(v) > 0
	}
	switch value {
	case nil, false, int64(0), 0.0, "", time.Duration(0):
		return false
	}
	return true
}

var (
	// truthful takes the truth of anything.
	truthful = &kind[bool]{read: func(_ *fields, value any) bool { return truth(value) }, write: boolean.write}

	// anything is for arguments that a handler reads by itself, or ignores. The client leaves them out.
	anything = &kind[any]{read: func(_ *fields, value any) any { return value }}

	texts        = listing(text)
	looseText    = textAs[string]()
	looseInteger = integerAs[int64]()

	// addend is an integer to which the Python scheduler adds, so a text is an error.
	addend = &kind[int64]{looseInteger.pythonType, func(f *fields, value any) int64 {
		if _, text := value.(string); text {
			f.fail(typeError(`can only concatenate str (not "int") to str`))
			return 0
		}
		return looseInteger.read(f, value)
	}, looseInteger.write}

	// limit is the largest number of rows wanted.
	limit = &kind[int]{pythonType{name: "int"}, func(f *fields, value any) int {
		i := looseInteger.read(f, value)
		if i < 0 {
			f.fail(errNegativeLimit())
		}
		return int(i)
	}, integerAs[int]().write}
	limitOrNone = orNone(limit)

	looseMoment = orNone(&kind[time.Time]{pythonType{name: "datetime"}, func(f *fields, value any) time.Time {
		switch v := value.(type) {
		case time.Time:
			return v
		case naiveTime:
			return v.Time
		case string:
			t, err := parseTime(v)
			if err != nil {
				f.fail(psycopgError("InvalidDatetimeFormat", "argument '%s' is no timestamp", f.name))
				return time.Time{}
			}
			return moment.read(f, t)
		}
		f.wrong(value)
		return time.Time{}
	}, moment.write})

	// dateText is a moment as text; datetimes do too.
	dateText = &kind[string]{read: func(f *fields, value any) string {
		if typeName(value) == "datetime" {
			return looseMoment.read(f, value).Format(time.RFC3339Nano)
		}
		f.kind.name = "str"
		return looseText.read(f, value)
	}}

	cooldown = unlessFalse(orNone(scalar("timedelta", timedelta.write)))

	looseFloat = orNone(&kind[float64]{pythonType{name: "float"}, func(f *fields, value any) float64 {
		switch v := value.(type) {
		case int64:
			return float64(v)
		case float64:
			if math.IsNaN(v) {
				f.kind.name = "a number"
				f.wrong(value)
			}
			return v
		}
		f.wrong(value)
		return 0
	}, float.write})

	looseID = &kind[uuid.UUID]{pythonType{name: "UUID"}, func(f *fields, value any) uuid.UUID {
		switch v := value.(type) {
		case uuid.UUID:
			return v
		case string:
			id, err := parseUUID(v)
			if err != nil {
				f.fail(psycopgError("InvalidTextRepresentation", "argument '%s' is no UUID", f.name))
			}
			return id
		}
		f.wrong(value)
		return uuid.UUID{}
	}, id.write}

	// idText is one that the client sends as text.
	idText = &kind[uuid.UUID]{looseID.pythonType, looseID.read, func(f *fields, v *uuid.UUID) { f.out.text(v.String()) }}

	// looseObject is a dict as JSON.
	looseObject = orNil(&kind[json.RawMessage]{pythonType{name: "dict"}, func(f *fields, value any) json.RawMessage {
		if _, ok := value.(dict); !ok {
			f.wrong(value)
			return nil
		}
		return f.json(value)
	}, writeJSON})
)

func errNegativeLimit() error {
	return psycopgError("InvalidRowCountInLimitClause", "LIMIT must not be negative")
}

// textAs is a text, or None.
func textAs[T ~string]() *kind[T] {
	return &kind[T]{text.pythonType, func(f *fields, value any) T {
		if value == nil {
			return ""
		}
		return T(text.read(f, value))
	}, func(f *fields, v *T) { f.out.text(string(*v)) }}
}

// textsAs is a list of texts, or one text.
func textsAs[T ~string]() *kind[[]T] {
	return unlessFalse(noneIfEmpty(&kind[[]T]{text.pythonType, func(f *fields, value any) []T {
		if _, ok := value.(string); ok {
			return []T{T(text.read(f, value))}
		}
		return listing(&kind[T]{text.pythonType, func(f *fields, value any) T { return T(text.read(f, value)) }, nil}).read(f, value)
	}, listing(textAs[T]()).write}))
}

// integerAs is an integer, or its text.
func integerAs[T ~int | ~int64]() *kind[T] {
	return &kind[T]{pythonType{name: "int"}, func(f *fields, value any) T {
		switch v := value.(type) {
		case int64:
			return T(v)
		case *big.Int:
			f.fail(psycopgError("NumericValueOutOfRange", "argument '%s' is out of range", f.name))
			return 0
		case string:
			i, err := int64(0), strconv.ErrSyntax
			if len(v) <= maxForm {
				i, err = strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			}
			if err != nil {
				f.fail(psycopgError("InvalidTextRepresentation", "argument '%s' is no integer", f.name))
			}
			return T(i)
		}
		f.wrong(value)
		return 0
	}, func(f *fields, v *T) { f.out.integer(int64(*v)) }}
}

// unlessFalse is a k, or any value that is false.
func unlessFalse[V any](k *kind[V]) *kind[V] {
	return &kind[V]{k.pythonType, func(f *fields, value any) (none V) {
		if !truth(value) {
			return none
		}
		return k.read(f, value)
	}, k.write}
}

// noneIfEmpty is a list that the client sends as None if it is empty.
func noneIfEmpty[V any](k *kind[[]V]) *kind[[]V] {
	return noneIf(k, func(list []V) bool { return len(list) == 0 })
}

// nullID is a k, or none if absent returns true for a value.
func nullID(k *kind[uuid.UUID], absent func(value any) bool) *kind[uuid.NullUUID] {
	return &kind[uuid.NullUUID]{k.pythonType, func(f *fields, value any) uuid.NullUUID {
		if absent(value) {
			return uuid.NullUUID{}
		}
		return uuid.NullUUID{UUID: k.read(f, value), Valid: true}
	}, func(f *fields, v *uuid.NullUUID) {
		if v.Valid {
			k.write(f, &v.UUID)
		} else {
			f.out.null()
		}
	}}
}

func isFalse(value any) bool { return !truth(value) }
func isNone(value any) bool  { return value == nil }
