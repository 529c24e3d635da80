package celery

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// msgpackToJSON rewrites a msgpack document as JSON, so that there is one
// reader of events and replies. What JSON hasn't becomes what comes nearest:
// keys become text, binary data text or base64, NaN and the infinities null,
// a timestamp its seconds since 1970, and any other extension null.
func msgpackToJSON(src []byte) ([]byte, error) {
	r := msgpackReader{src: src, out: make([]byte, 0, 2*len(src))}
	if err := r.value(false); err != nil {
		return nil, err
	}
	if r.pos != len(r.src) {
		return nil, fmt.Errorf("msgpack ends at byte %d of %d", r.pos, len(r.src))
	}
	return r.out, nil
}

type msgpackReader struct {
	src   []byte
	pos   int
	depth int
	out   []byte
}

var errShortMsgpack = errors.New("msgpack ends too early")

func (r *msgpackReader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.src)-r.pos {
		return nil, errShortMsgpack
	}
	b := r.src[r.pos : r.pos+n]
	r.pos += n
	return b, nil
}

// uint reads a big-endian number of the given size in bytes.
func (r *msgpackReader) uint(size int) (uint64, error) {
	b, err := r.take(size)
	if err != nil {
		return 0, err
	}
	var u uint64
	for _, c := range b {
		u = u<<8 | uint64(c)
	}
	return u, nil
}

// value rewrites one value; as a key, every scalar is put between quotes.
func (r *msgpackReader) value(key bool) error {
	code, err := r.uint(1)
	if err != nil {
		return err
	}
	c := byte(code)
	switch {
	case c <= 0x7f:
		return r.scalar(key, strconv.Itoa(int(c)))
	case c >= 0xe0:
		return r.scalar(key, strconv.Itoa(int(int8(c))))
	case c <= 0x8f:
		return r.dict(uint64(c&15), key)
	case c <= 0x9f:
		return r.list(uint64(c&15), key)
	case c <= 0xbf:
		return r.text(uint64(c & 31))
	}
	switch c {
	case 0xc0:
		return r.scalar(key, "null")
	case 0xc2:
		return r.scalar(key, "false")
	case 0xc3:
		return r.scalar(key, "true")
	case 0xca:
		u, err := r.uint(4)
		return r.float(key, float64(math.Float32frombits(uint32(u))), err)
	case 0xcb:
		u, err := r.uint(8)
		return r.float(key, math.Float64frombits(u), err)
	case 0xcc, 0xcd, 0xce, 0xcf:
		u, err := r.uint(1 << (c - 0xcc))
		if err != nil {
			return err
		}
		return r.scalar(key, strconv.FormatUint(u, 10))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		u, err := r.uint(size)
		if err != nil {
			return err
		}
		shift := 64 - 8*size
		return r.scalar(key, strconv.FormatInt(int64(u<<shift)>>shift, 10))
	case 0xc4, 0xc5, 0xc6:
		return r.sized(1<<(c-0xc4), r.binary)
	case 0xd9, 0xda, 0xdb:
		return r.sized(1<<(c-0xd9), r.text)
	case 0xdc, 0xdd:
		return r.sized(2<<(c-0xdc), func(n uint64) error { return r.list(n, key) })
	case 0xde, 0xdf:
		return r.sized(2<<(c-0xde), func(n uint64) error { return r.dict(n, key) })
	case 0xc7, 0xc8, 0xc9:
		return r.sized(1<<(c-0xc7), func(n uint64) error { return r.extension(n, key) })
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1<<(c-0xd4), key)
	}
	return fmt.Errorf("msgpack has no code %#x", c)
}

func (r *msgpackReader) sized(size int, read func(uint64) error) error {
	n, err := r.uint(size)
	if err != nil {
		return err
	}
	return read(n)
}

func (r *msgpackReader) scalar(key bool, text string) error {
	if key {
		r.out = append(r.out, '"')
	}
	r.out = append(r.out, text...)
	if key {
		r.out = append(r.out, '"')
	}
	return nil
}

func (r *msgpackReader) float(key bool, f float64, err error) error {
	if err != nil {
		return err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return r.scalar(key, "null")
	}
	return r.scalar(key, strconv.FormatFloat(f, 'g', -1, 64))
}

func (r *msgpackReader) text(n uint64) error {
	b, err := r.bytes(n)
	if err != nil {
		return err
	}
	r.out = append(r.out, '"')
	r.out = appendEscaped(r.out, b)
	r.out = append(r.out, '"')
	return nil
}

func (r *msgpackReader) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(r.src)-r.pos) {
		return nil, errShortMsgpack
	}
	return r.take(int(n))
}

func (r *msgpackReader) binary(n uint64) error {
	b, err := r.bytes(n)
	if err != nil {
		return err
	}
	r.out = append(r.out, '"')
	if utf8.Valid(b) {
		r.out = appendEscaped(r.out, b)
	} else {
		r.out = base64.StdEncoding.AppendEncode(r.out, b)
	}
	r.out = append(r.out, '"')
	return nil
}

func (r *msgpackReader) nest(key bool) error {
	if key {
		return errors.New("a msgpack key is a list or a dict")
	}
	if r.depth++; r.depth > maxDepth {
		return errTooDeep
	}
	return nil
}

func (r *msgpackReader) list(n uint64, key bool) error {
	if err := r.nest(key); err != nil {
		return err
	}
	r.out = append(r.out, '[')
	for i := range n {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if err := r.value(false); err != nil {
			return err
		}
	}
	r.out = append(r.out, ']')
	r.depth--
	return nil
}

func (r *msgpackReader) dict(n uint64, key bool) error {
	if err := r.nest(key); err != nil {
		return err
	}
	r.out = append(r.out, '{')
	for i := range n {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if err := r.value(true); err != nil {
			return err
		}
		r.out = append(r.out, ':')
		if err := r.value(false); err != nil {
			return err
		}
	}
	r.out = append(r.out, '}')
	r.depth--
	return nil
}

// extension reads one of n bytes. Type -1 is a timestamp.
func (r *msgpackReader) extension(n uint64, key bool) error {
	kind, err := r.uint(1)
	if err != nil {
		return err
	}
	b, err := r.bytes(n)
	if err != nil {
		return err
	}
	if int8(kind) == -1 {
		switch len(b) {
		case 4:
			return r.scalar(key, strconv.FormatUint(uint64(binary.BigEndian.Uint32(b)), 10))
		case 8:
			u := binary.BigEndian.Uint64(b)
			return r.float(key, float64(u&(1<<34-1))+float64(u>>34)/1e9, nil)
		case 12:
			nanoseconds, seconds := binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))
			return r.float(key, float64(seconds)+float64(nanoseconds)/1e9, nil)
		}
	}
	return r.scalar(key, "null")
}
