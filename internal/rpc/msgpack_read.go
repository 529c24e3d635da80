package rpc

import (
	"bytes"
	"errors"
	"math/big"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/msgpack"
)

// Extension types of the Python scheduler: integers above 64 bits, as their big-endian bytes.
const (
	extLongInt     = 1
	extLongNegInt  = 2
	maxLongIntSize = 1 << 10 // bytes; converting longer ones takes quadratic time
)

// readMsgpack reads a msgpack document, which must be all of src. The result shares
// nothing with src.
func readMsgpack(src []byte, l limits) (any, error) {
	if err := checkMsgpack(src, l); err != nil {
		return nil, err
	}
	r := &msgpackReader{msgpack.Reader{Rest: src}, l}
	return r.value()
}

// checkMsgpack steps over a document without allocating. It proves that the lengths in the heads are right: the
// document has that many elements.
func checkMsgpack(src []byte, l limits) error {
	l.used = nil
	r := msgpackReader{msgpack.Reader{Rest: src}, l}
	var left []int // values that are still to come, of each list and dict around
	for more := true; more; more = len(left) > 0 {
		t, err := r.next()
		if err != nil {
			return err
		}
		if len(left) > 0 {
			left[len(left)-1]--
		}
		switch t.Kind {
		case msgpack.List:
			left = append(left, t.Len())
		case msgpack.Map:
			left = append(left, 2*t.Len())
		}
		if len(left) > l.depth {
			return errTooDeep()
		}
		for len(left) > 0 && left[len(left)-1] == 0 {
			left = left[:len(left)-1]
		}
	}
	if len(r.Rest) > 0 {
		return &exception{class: "ExtraData", module: "msgpack.exceptions", args: []string{"unpack(b) received extra data."}}
	}
	return nil
}

type msgpackReader struct {
	msgpack.Reader
	limits
}

// next reads a value, or the head of one.
func (r *msgpackReader) next() (msgpack.Token, error) {
	if err := r.spend(1); err != nil {
		return msgpack.Token{}, err
	}
	t, err := r.Next()
	switch {
	case errors.Is(err, msgpack.ErrShort):
		err = valueError("Unpack failed: incomplete input")
	case err != nil:
		err = &exception{class: "FormatError", module: "msgpack.exceptions"}
	}
	return t, err
}

// value reads a value of a document that was checked.
func (r *msgpackReader) value() (any, error) {
	t, err := r.next()
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case msgpack.Bool:
		return t.Bool(), nil
	case msgpack.Int:
		return t.Int(), nil
	case msgpack.Uint:
		return new(big.Int).SetUint64(t.Uint()), nil
	case msgpack.Float:
		return t.Float(), nil
	case msgpack.Text:
		if !utf8.Valid(t.Data) {
			return nil, &exception{class: "UnicodeDecodeError", args: []string{"a text is not UTF-8"}}
		}
		return string(t.Data), nil
	case msgpack.Bytes:
		return bytes.Clone(t.Data), nil
	case msgpack.Ext:
		return readExtension(t.Type, t.Data)
	case msgpack.List, msgpack.Map:
		if t.Kind == msgpack.List {
			return r.list(t.Len())
		}
		return r.dict(t.Len())
	}
	return nil, nil // None
}

func (r *msgpackReader) list(n int) (any, error) {
	list := make([]any, 0, n)
	for range n {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *msgpackReader) dict(n int) (any, error) {
	d := make(dict, 0, n)
	for range n {
		key, err := r.value()
		if err != nil {
			return nil, err
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		switch key.(type) {
		case []any, dict:
			return nil, typeError("unhashable type: '%s'", typeName(key))
		}
		d = append(d, entry{key, value})
	}
	return d.untagged(false, &r.limits)
}

func readExtension(kind int8, data []byte) (any, error) {
	switch kind {
	case msgpack.TimestampType:
		return readTimestamp(data)
	case extLongInt, extLongNegInt:
		if len(data) > maxLongIntSize {
			return nil, valueError("an integer is too long")
		}
		i := new(big.Int).SetBytes(data)
		if kind == extLongNegInt {
			i.Neg(i)
		}
		if i.IsInt64() {
			return i.Int64(), nil
		}
		return i, nil
	}
	return nil, valueError("Unknown msgpack extended code %d", kind)
}

// readTimestamp reads a timestamp. It must be one that a Python datetime can
// hold: from year 1 to 9999, in microseconds.
func readTimestamp(data []byte) (any, error) {
	seconds, nanoseconds, ok := msgpack.Timestamp(data)
	if !ok {
		return nil, valueError("Timestamp type can only be created from 32, 64, or 96-bit byte objects")
	}
	t := time.Unix(seconds, int64(nanoseconds)).UTC().Truncate(time.Microsecond)
	if err := outOfRange("date value", t); err != nil {
		return nil, err
	}
	return t, nil
}

// outOfRange returns an error if a Python datetime can't hold a moment in UTC.
func outOfRange(what string, t time.Time) error {
	if seconds := t.Unix(); seconds < minTime || seconds > maxTime {
		return &exception{class: "OverflowError", args: []string{what + " out of range"}}
	}
	return nil
}

// The seconds of the first and the last datetime.
const (
	minTime = -62135596800
	maxTime = 253402300799
)
