package rpc

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/postgres"
)

// kind reads a V from a value of a document, and writes one. A field whose kind has no write is left out.
type kind[V any] struct {
	pythonType
	read  func(f *fields, value any) V
	write func(f *fields, v *V)
}

// pythonType names a type in errors.
type pythonType struct {
	name     string
	optional bool
}

func (t pythonType) String() string {
	switch {
	case t.optional:
		return "typing.Optional[" + t.name + "]"
	case strings.HasPrefix(t.name, "typing."):
		return t.name
	}
	return "<class '" + t.name + "'>"
}

// scalar is a kind whose values are a Go type of their own in a document.
func scalar[V any](name string, write func(*fields, *V)) *kind[V] {
	return &kind[V]{pythonType{name: name}, as[V], write}
}

func as[V any](f *fields, value any) V {
	v, ok := value.(V)
	if !ok {
		f.wrong(value)
	}
	return v
}

var (
	text = &kind[string]{pythonType{name: "str"}, func(f *fields, value any) string {
		s := as[string](f, value)
		f.argument(len(s))
		if f.mode != ofResponse {
			f.spend(jsonTextSize(s))
		}
		return s
	}, func(f *fields, v *string) { f.out.text(*v) }}

	blob = orNil(&kind[[]byte]{pythonType{name: "bytes"}, func(f *fields, value any) []byte {
		b := as[[]byte](f, value)
		f.argument(len(b))
		return b
	}, func(f *fields, v *[]byte) { f.out.bytes(*v) }})

	boolean   = scalar("bool", func(f *fields, v *bool) { f.out.boolean(*v) })
	float     = scalar("float", func(f *fields, v *float64) { f.out.float(*v) })
	timedelta = scalar("datetime.timedelta", func(f *fields, v *time.Duration) {
		if postgres.TooLong(*v) {
			f.fail(errTooLong(f.name))
		}
		writeTimedelta(f.out, *v)
	})
	id = scalar("uuid.UUID", func(f *fields, v *uuid.UUID) { writeUUID(f.out, *v) })

	// True and False are integers in Python, but not for a column of PostgreSQL.
	integer = &kind[int64]{pythonType{name: "int"}, func(f *fields, value any) int64 {
		switch value {
		case true, false:
			if f.mode == ofModel {
				f.fail(psycopgError("DatatypeMismatch", `column "%s" is of type bigint but expression is of type boolean`, f.name))
			}
			if value == true {
				return 1
			}
			return 0
		}
		return as[int64](f, value)
	}, func(f *fields, v *int64) { f.out.integer(*v) }}

	// unused is an integer that the calls with such an object ignore.
	unused = &kind[int64]{integer.pythonType, func(f *fields, value any) int64 {
		if _, ok := value.(bool); ok {
			return 0
		}
		return integer.read(f, value)
	}, integer.write}

	// integer32 is an integer for a column of 32 bits.
	integer32 = &kind[int32]{pythonType{name: "int"}, func(f *fields, value any) int32 {
		i := integer.read(f, value)
		if i != int64(int32(i)) {
			f.fail(psycopgError("NumericValueOutOfRange", "integer out of range"))
		}
		return int32(i)
	}, func(f *fields, v *int32) { f.out.integer(int64(*v)) }}

	// A moment without a zone is in UTC.
	moment = &kind[time.Time]{pythonType{name: "datetime.datetime"}, func(f *fields, value any) time.Time {
		if naive, ok := value.(naiveTime); ok {
			return naive.Time
		}
		return as[time.Time](f, value)
	}, func(f *fields, v *time.Time) { f.out.time(*v) }}

	// awareMoment must have a zone.
	awareMoment = &kind[time.Time]{moment.pythonType, func(f *fields, value any) time.Time {
		if _, naive := value.(naiveTime); naive {
			f.fail(valueError("date must be a timezone-aware datetime."))
		}
		return moment.read(f, value)
	}, moment.write}

	// jsonObject is a dict with texts as keys, as JSON.
	jsonObject = &kind[json.RawMessage]{pythonType{name: "typing.Dict[str, typing.Any]"}, func(f *fields, value any) json.RawMessage {
		d := as[dict](f, value)
		for _, e := range d {
			if _, ok := e.key.(string); !ok {
				f.wrong(e.key)
			}
		}
		return f.json(d)
	}, writeJSON}

	// jsonArray is a list, as JSON.
	jsonArray = &kind[json.RawMessage]{pythonType{name: "typing.List[typing.Any]"}, func(f *fields, value any) json.RawMessage {
		return f.json(as[[]any](f, value))
	}, writeJSON}

	visitStatus = orNone(&kind[model.VisitStatus]{read: func(f *fields, value any) model.VisitStatus {
		status, err := visitStatusOf(value)
		if err != nil {
			f.fail(err)
			return ""
		}
		return status.(model.VisitStatus)
	}, write: func(f *fields, v *model.VisitStatus) {
		f.out.openTag("last_visit_status")
		f.out.text(string(*v))
		f.out.closeTag()
	}})

	optionalText      = nullable(text)
	optionalBoolean   = nullable(boolean)
	optionalInteger   = nullable(integer)
	optionalFloat     = nullable(float)
	optionalTimedelta = nullable(timedelta)
	optionalMoment    = nullable(moment)
	optionalAware     = nullable(awareMoment)
	idOrNone          = orNone(id)
	integerOrNone     = orNone(integer)
	momentOrNone      = orNone(moment)
	objectOrNone      = orNil(jsonObject)
)

// argument refuses a text or bytes of a request that are too long for an argument or a field.
func (f *fields) argument(size int) {
	if size > maxArgument && f.mode != ofResponse {
		f.fail(tooLarge("%s has %d bytes, more than %d", f.name, size, maxArgument))
	}
}

// errTooLong is the error of an interval that was shortened when it was read ([postgres.TooLong]).
func errTooLong(name string) error {
	return &exception{class: "OverflowError", args: []string{name + " is longer than 292 years, which this server can't tell"}}
}

// json returns the JSON of a value of the request, and counts it against the limit of all.
func (f *fields) json(value any) json.RawMessage {
	if f.err != nil {
		return nil
	}
	f.spend(0)
	text, err := appendBoundedJSON(nil, value, *f.jsonLeft)
	if err != nil {
		f.fail(err)
		return nil
	}
	f.spend(len(text))
	return text
}

// spend counts a text or value of the request that goes to the database as JSON.
func (f *fields) spend(size int) {
	if f.jsonLeft == nil {
		f.jsonLeft = new(maxJSON)
	}
	if *f.jsonLeft -= size; *f.jsonLeft < 0 {
		f.fail(tooLarge("the request's values have more than %d bytes as JSON; send fewer at a time", maxJSON))
	}
}

func writeJSON(f *fields, v *json.RawMessage) { f.out.json(*v) }

// nullable is a k or None, which is nil.
func nullable[V any](k *kind[V]) *kind[*V] {
	return &kind[*V]{pythonType{k.name, true}, func(f *fields, value any) *V {
		if value == nil {
			return nil
		}
		return new(k.read(f, value))
	}, func(f *fields, v **V) {
		if *v == nil {
			f.out.null()
		} else {
			k.write(f, *v)
		}
	}}
}

// orNone is a k or None, which is the zero of its type.
func orNone[V comparable](k *kind[V]) *kind[V] {
	var zero V
	return noneIf(k, func(v V) bool { return v == zero })
}

// orNil is a k or None, which is nil.
func orNil[V ~[]byte](k *kind[V]) *kind[V] { return noneIf(k, func(v V) bool { return v == nil }) }

func noneIf[V any](k *kind[V], zero func(V) bool) *kind[V] {
	return &kind[V]{pythonType{k.name, true}, func(f *fields, value any) (none V) {
		if value == nil {
			return none
		}
		return k.read(f, value)
	}, func(f *fields, v *V) {
		if zero(*v) {
			f.out.null()
		} else {
			k.write(f, v)
		}
	}}
}

// literal is a text that is one of a few.
func literal[T ~string](values ...T) *kind[T] {
	return &kind[T]{read: func(f *fields, value any) T {
		text, ok := value.(string)
		if !ok || !slices.Contains(values, T(text)) {
			f.fail(attrsError("LiteralError", "Value of "+f.name+" is not any of the literals specified"))
		}
		return T(text)
	}, write: func(f *fields, v *T) { f.out.text(string(*v)) }}
}

// listing is a list of k.
func listing[V any](k *kind[V]) *kind[[]V] {
	return &kind[[]V]{k.pythonType, func(f *fields, value any) []V {
		elements, ok := value.([]any)
		if !ok {
			f.refuse(value, typeError("'%s' object is not iterable", typeName(value)))
		}
		// It grows with the values read, as a V may take much more memory than a value.
		list := make([]V, 0, min(len(elements), 1024))
		for _, element := range elements {
			if f.err != nil {
				return nil
			}
			list = append(list, k.read(f, element))
		}
		return list
	}, func(f *fields, v *[]V) {
		f.out.openList(len(*v))
		for i := range *v {
			k.write(f, &(*v)[i])
		}
		f.out.closeList()
	}}
}

// dictOf is a plain dict of the fields that visit visits; it may have others, too.
func dictOf[T any](visit func(*fields, *T)) *kind[T] {
	s := signatureOf("", visit)
	return &kind[T]{read: func(f *fields, value any) (v T) {
		inner := fields{mode: f.mode, jsonLeft: f.jsonLeft}
		if d, ok := value.(dict); ok {
			_ = s.bind(&inner, d) // without a name, it binds anything
			visit(&inner, &v)
			f.fail(inner.err)
		} else {
			f.wrong(value)
		}
		return v
	}, write: func(f *fields, v *T) {
		f.out.openDict()
		visit(f, v)
		f.out.closeDict()
	}}
}

// typeName returns the name of a value's Python type.
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
	case model.VisitStatus:
		return "LastVisitStatus"
	}
	return className(value)
}
