package celery

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// appendMsgpack writes a value as Python's msgpack.packb(…, use_bin_type=True)
// does: each integer in its shortest form, every float in 64 bits.
func (v *values) appendMsgpack(dst []byte, at int32) ([]byte, error) {
	switch it := &v.items[at]; it.kind {
	case kindNull:
		return append(dst, 0xc0), nil
	case kindFalse:
		return append(dst, 0xc2), nil
	case kindTrue:
		return append(dst, 0xc3), nil
	case kindInt:
		if i, err := strconv.ParseInt(string(it.text), 10, 64); err == nil {
			return appendMsgpackInt(dst, i), nil
		}
		if u, err := strconv.ParseUint(string(it.text), 10, 64); err == nil {
			return binary.BigEndian.AppendUint64(append(dst, 0xcf), u), nil
		}
		return dst, fmt.Errorf("msgpack has no integer as large as %.40s", it.text)
	case kindFloat:
		f, err := strconv.ParseFloat(string(it.text), 64)
		if err != nil {
			return dst, err
		}
		if math.IsNaN(f) {
			// Go's NaN has another payload than C's.
			return binary.BigEndian.AppendUint64(append(dst, 0xcb), 0x7ff8000000000000), nil
		}
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f)), nil
	case kindString:
		return appendMsgpackString(dst, it.text), nil
	case kindList:
		dst = appendMsgpackHeader(dst, int(it.count), 0x90, 0xdc)
		var err error
		for child := it.first; child != none; child = v.items[child].next {
			if dst, err = v.appendMsgpack(dst, child); err != nil {
				return dst, err
			}
		}
		return dst, nil
	default:
		dst = appendMsgpackHeader(dst, int(it.count), 0x80, 0xde)
		var err error
		for key := it.first; key != none; key = v.items[key].next {
			dst = appendMsgpackString(dst, v.items[key].text)
			if dst, err = v.appendMsgpack(dst, v.items[key].value); err != nil {
				return dst, err
			}
		}
		return dst, nil
	}
}

func appendMsgpackInt(dst []byte, i int64) []byte {
	switch {
	case i >= 0 && i < 1<<7, i < 0 && i >= -1<<5:
		return append(dst, byte(i))
	case i >= 0 && i <= math.MaxUint8:
		return append(dst, 0xcc, byte(i))
	case i >= 0 && i <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(i))
	case i >= 0 && i <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(i))
	case i >= 0:
		return binary.BigEndian.AppendUint64(append(dst, 0xcf), uint64(i))
	case i >= math.MinInt8:
		return append(dst, 0xd0, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(i))
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(i))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(i))
	}
}

func appendMsgpackString(dst, s []byte) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, 0xd9, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

// appendMsgpackHeader begins a list or dict of n elements: fix is the code of
// the form that holds up to 15, long that of the one with 16 bits, after
// which comes the one with 32.
func appendMsgpackHeader(dst []byte, n int, fix, long byte) []byte {
	switch {
	case n < 16:
		return append(dst, fix|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, long), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(dst, long+1), uint32(n))
	}
}
