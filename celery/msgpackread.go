package celery

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"swh-scheduler/internal/msgpack"
)

// msgpackToJSON rewrites a msgpack document as JSON, so that events and replies have one reader. Keys become text,
// binary data text or base64, NaN and the infinities the text other. A timestamp becomes its seconds since 1970, and
// any other extension null.
func msgpackToJSON(src []byte, other string) ([]byte, error) {
	r := msgpackReader{Reader: msgpack.Reader{Rest: src}, out: make([]byte, 0, 2*len(src)), other: other}
	if err := r.value(false); err != nil {
		return nil, err
	}
	if len(r.Rest) > 0 {
		return nil, fmt.Errorf("msgpack ends at byte %d of %d", len(src)-len(r.Rest), len(src))
	}
	return r.out, nil
}

type msgpackReader struct {
	msgpack.Reader
	depth int
	out   []byte
	other string // in place of NaN and the infinities
}

// value rewrites one value; as a key, a scalar is put between quotes.
func (r *msgpackReader) value(key bool) error {
	t, err := r.Next()
	if err != nil {
		return err
	}
	if t.Kind == msgpack.List || t.Kind == msgpack.Map {
		if key {
			return errors.New("a msgpack key is a list or a dict")
		}
		return r.container(t)
	}
	quote := key || t.Kind == msgpack.Text || t.Kind == msgpack.Bytes
	if quote {
		r.out = append(r.out, '"')
	}
	r.out = r.appendScalar(r.out, t)
	if quote {
		r.out = append(r.out, '"')
	}
	return nil
}

func (r *msgpackReader) container(t msgpack.Token) error {
	if r.depth++; r.depth > maxDepth {
		return errTooDeep
	}
	brackets := "[]"
	if t.Kind == msgpack.Map {
		brackets = "{}"
	}
	r.out = append(r.out, brackets[0])
	for i := range t.Len() {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if t.Kind == msgpack.Map {
			if err := r.value(true); err != nil {
				return err
			}
			r.out = append(r.out, ':')
		}
		if err := r.value(false); err != nil {
			return err
		}
	}
	r.out = append(r.out, brackets[1])
	r.depth--
	return nil
}

// appendScalar writes a value that is neither list nor dict, without quotes.
func (r *msgpackReader) appendScalar(dst []byte, t msgpack.Token) []byte {
	switch t.Kind {
	case msgpack.Text, msgpack.Bytes:
		if t.Kind == msgpack.Bytes && !utf8.Valid(t.Data) {
			return base64.StdEncoding.AppendEncode(dst, t.Data)
		}
		return appendEscaped(dst, t.Data)
	case msgpack.Bool:
		return strconv.AppendBool(dst, t.Bool())
	case msgpack.Int:
		return strconv.AppendInt(dst, t.Int(), 10)
	case msgpack.Uint:
		return strconv.AppendUint(dst, t.Uint(), 10)
	case msgpack.Float:
		return r.appendFloat(dst, t.Float())
	case msgpack.Ext:
		seconds, nanoseconds, ok := msgpack.Timestamp(t.Data)
		switch {
		case !ok || t.Type != msgpack.TimestampType:
		case len(t.Data) == 4:
			return strconv.AppendInt(dst, seconds, 10)
		default:
			return r.appendFloat(dst, float64(seconds)+float64(nanoseconds)/1e9)
		}
	}
	return append(dst, "null"...)
}

func (r *msgpackReader) appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, r.other...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
