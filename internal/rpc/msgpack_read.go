package rpc

import (
	"encoding/binary"
	"math"
	"math/big"
	"time"
	"unicode/utf8"
)

// Extension types of msgpack: the standard's timestamp, and integers that 64
// bits don't hold, by their big-endian bytes.
const (
	extTimestamp   = -1
	extLongInt     = 1
	extLongNegInt  = 2
	maxLongIntSize = 1 << 10 // bytes; converting longer ones takes quadratic time
)

// readMsgpack reads a msgpack document, which must be all of src. Texts and
// bytes of the result may share src.
func readMsgpack(src []byte, l limits) (any, error) {
	r := &msgpackReader{src: src, budget: budget{l}}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if len(r.src) > 0 {
		return nil, &exception{class: "ExtraData", module: "msgpack.exceptions", args: []any{"unpack(b) received extra data."}}
	}
	return v, nil
}

type msgpackReader struct {
	src []byte // what is left
	budget
}

func errIncomplete() error { return valueError("Unpack failed: incomplete input") }

func (r *msgpackReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.src)) {
		return nil, errIncomplete()
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b, nil
}

// uint reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *msgpackReader) uint(size uint64) (uint64, error) {
	b, err := r.take(size)
	if err != nil {
		return 0, err
	}
	switch size {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
	return binary.BigEndian.Uint64(b), nil
}

func (r *msgpackReader) value() (any, error) {
	if err := r.spend(1); err != nil {
		return nil, err
	}
	head, err := r.take(1)
	if err != nil {
		return nil, err
	}
	c := head[0]
	switch {
	case c <= 0x7f:
		return int64(c), nil
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c <= 0x8f:
		return r.dict(uint64(c & 15))
	case c <= 0x9f:
		return r.list(uint64(c & 15))
	case c <= 0xbf:
		return r.text(uint64(c & 31))
	}
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2:
		return false, nil
	case 0xc3:
		return true, nil
	case 0xc4, 0xc5, 0xc6:
		n, err := r.uint(1 << (c - 0xc4))
		if err != nil {
			return nil, err
		}
		return r.take(n)
	case 0xc7, 0xc8, 0xc9:
		n, err := r.uint(1 << (c - 0xc7))
		if err != nil {
			return nil, err
		}
		return r.extension(n)
	case 0xca:
		u, err := r.uint(4)
		return float64(math.Float32frombits(uint32(u))), err
	case 0xcb:
		u, err := r.uint(8)
		return math.Float64frombits(u), err
	case 0xcc, 0xcd, 0xce, 0xcf:
		u, err := r.uint(1 << (c - 0xcc))
		if err == nil && u > math.MaxInt64 {
			return new(big.Int).SetUint64(u), nil
		}
		return int64(u), err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := uint64(1) << (c - 0xd0)
		u, err := r.uint(size)
		shift := 64 - 8*size
		return int64(u<<shift) >> shift, err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1 << (c - 0xd4))
	case 0xd9, 0xda, 0xdb:
		n, err := r.uint(1 << (c - 0xd9))
		if err != nil {
			return nil, err
		}
		return r.text(n)
	case 0xdc, 0xdd:
		n, err := r.uint(2 << (c - 0xdc))
		if err != nil {
			return nil, err
		}
		return r.list(n)
	case 0xde, 0xdf:
		n, err := r.uint(2 << (c - 0xde))
		if err != nil {
			return nil, err
		}
		return r.dict(n)
	}
	return nil, &exception{class: "FormatError", module: "msgpack.exceptions"}
}

func (r *msgpackReader) text(n uint64) (any, error) {
	b, err := r.take(n)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, &exception{class: "UnicodeDecodeError", args: []any{"a text is not UTF-8"}}
	}
	return string(b), nil
}

func (r *msgpackReader) list(n uint64) (any, error) {
	// Each element takes a byte at least: what is announced but cannot be there
	// is not allocated.
	if n > uint64(len(r.src)) {
		return nil, errIncomplete()
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	list := make([]any, 0, min(n, uint64(r.values)))
	for range n {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	r.leave()
	return list, nil
}

func (r *msgpackReader) dict(n uint64) (any, error) {
	if n > uint64(len(r.src))/2 {
		return nil, errIncomplete()
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	d := make(dict, 0, min(n, uint64(r.values)))
	var tag, tagged any // of {b"swhtype": tag, b"d": tagged}
	tags := 0
	for range n {
		key, err := r.value()
		if err != nil {
			return nil, err
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		switch k := key.(type) {
		case []byte:
			switch string(k) {
			case "swhtype":
				tag = value
				tags |= 1
			case "d":
				tagged = value
				tags |= 2
			default:
				tags |= 4
			}
		case []any, dict:
			return nil, typeError("unhashable type: '%s'", typeName(key))
		default:
			tags |= 4
		}
		d = append(d, entry{key, value})
	}
	r.leave()
	if tags == 3 {
		if object, known, err := untag(tag, tagged); known || err != nil {
			return object, err
		}
	}
	return d, nil
}

func (r *msgpackReader) extension(n uint64) (any, error) {
	kind, err := r.uint(1)
	if err != nil {
		return nil, err
	}
	b, err := r.take(n)
	if err != nil {
		return nil, err
	}
	switch int8(kind) {
	case extTimestamp:
		return readTimestamp(b)
	case extLongInt, extLongNegInt:
		if n > maxLongIntSize {
			return nil, valueError("an integer is too long")
		}
		i := new(big.Int).SetBytes(b)
		if int8(kind) == extLongNegInt {
			i.Neg(i)
		}
		if i.IsInt64() {
			return i.Int64(), nil
		}
		return i, nil
	}
	return nil, valueError("Unknown msgpack extended code %d", int8(kind))
}

// readTimestamp reads one of the three forms of a timestamp. It must be one that
// a Python datetime can hold: from year 1 to 9999, in microseconds.
func readTimestamp(b []byte) (any, error) {
	var t time.Time
	switch len(b) {
	case 4:
		t = time.Unix(int64(binary.BigEndian.Uint32(b)), 0)
	case 8:
		u := binary.BigEndian.Uint64(b)
		t = time.Unix(int64(u&(1<<34-1)), int64(u>>34))
	case 12:
		seconds := int64(binary.BigEndian.Uint64(b[4:]))
		if seconds < minTime || seconds > maxTime {
			return nil, &exception{class: "OverflowError", args: []any{"date value out of range"}}
		}
		t = time.Unix(seconds, int64(binary.BigEndian.Uint32(b)))
	default:
		return nil, valueError("Timestamp type can only be created from 32, 64, or 96-bit byte objects")
	}
	t = t.UTC().Truncate(time.Microsecond)
	if year := t.Year(); year < 1 || year > 9999 {
		return nil, &exception{class: "OverflowError", args: []any{"date value out of range"}}
	}
	return t, nil
}

// The seconds of the first and the last datetime.
const (
	minTime = -62135596800
	maxTime = 253402300799
)
