package msgpack

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// AppendNil appends nil.
func AppendNil(dst []byte) []byte { return append(dst, 0xc0) }

// AppendBool appends false or true.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 0xc3)
	}
	return append(dst, 0xc2)
}

// AppendInt appends an integer.
func AppendInt(dst []byte, i int64) []byte {
	switch {
	case i >= 1<<7:
		return AppendUint(dst, uint64(i))
	case i >= -1<<5:
		return append(dst, byte(i))
	case i >= math.MinInt8:
		return append(dst, 0xd0, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(i))
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(i))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(i))
}

// AppendUint appends an unsigned integer.
func AppendUint(dst []byte, u uint64) []byte {
	switch {
	case u < 1<<7:
		return append(dst, byte(u))
	case u <= math.MaxUint32:
		return appendLength(dst, u, 0xcc)
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), u)
}

// AppendFloat appends a float in 64 bits, with Python's NaN, which differs from Go's.
func AppendFloat(dst []byte, f float64) []byte {
	bits := math.Float64bits(f)
	if math.IsNaN(f) {
		bits = 0x7ff8000000000000
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), bits)
}

// AppendText appends a text, which should be UTF-8.
func AppendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	if len(s) < 32 {
		dst = append(dst, 0xa0|byte(len(s)))
	} else {
		dst = appendLength(dst, uint64(len(s)), 0xd9)
	}
	return append(dst, s...)
}

// AppendBytes appends bytes.
func AppendBytes(dst, b []byte) []byte { return append(appendLength(dst, uint64(len(b)), 0xc4), b...) }

// AppendList begins a list of n elements.
func AppendList(dst []byte, n int) []byte { return appendHead(dst, n, 0x90, 0xdc) }

// AppendMap begins a map of n pairs of a key and a value.
func AppendMap(dst []byte, n int) []byte { return appendHead(dst, n, 0x80, 0xde) }

// AppendExt appends an extension.
func AppendExt(dst []byte, kind int8, data []byte) []byte {
	switch n := len(data); n {
	case 1, 2, 4, 8, 16:
		dst = append(dst, 0xd4+byte(bits.TrailingZeros(uint(n))))
	default:
		dst = appendLength(dst, uint64(n), 0xc7)
	}
	return append(append(dst, byte(kind)), data...)
}

// AppendTime appends a timestamp in the shortest of its three forms.
func AppendTime(dst []byte, t time.Time) []byte {
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond())
	var data [12]byte
	switch {
	case seconds >= 1<<34: // also before 1970
		binary.BigEndian.PutUint32(data[:], uint32(nanoseconds))
		binary.BigEndian.PutUint64(data[4:], seconds)
		return AppendExt(dst, TimestampType, data[:])
	case nanoseconds == 0 && seconds < 1<<32:
		binary.BigEndian.PutUint32(data[:], uint32(seconds))
		return AppendExt(dst, TimestampType, data[:4])
	}
	binary.BigEndian.PutUint64(data[:], nanoseconds<<34|seconds)
	return AppendExt(dst, TimestampType, data[:8])
}

// appendLength appends a number below 2³². code is the code for 8 bits; the next two are those for 16 and 32.
func appendLength(dst []byte, n uint64, code byte) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, code, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, code+1), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, code+2), uint32(n))
}

// appendHead begins a list or map. short is the code for up to 15 elements, long that for 16 bits, and the next one
// that for 32.
func appendHead(dst []byte, n int, short, long byte) []byte {
	switch {
	case n < 16:
		return append(dst, short|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, long+1), uint32(n))
}
