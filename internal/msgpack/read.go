package msgpack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds of values. An integer beyond int64 is a Uint.
const (
	Nil Kind = iota
	Bool
	Int
	Uint
	Float
	Text
	Bytes
	List
	Map
	Ext
)

// Token is a value, or the head of a list or map.
type Token struct {
	Kind Kind
	Type int8   // of an extension
	Data []byte // of a text, bytes or an extension; a slice of the document
	bits uint64
}

// Bool returns the value of a Bool.
func (t Token) Bool() bool { return t.bits != 0 }

// Int returns the value of an Int.
func (t Token) Int() int64 { return int64(t.bits) }

// Uint returns the value of a Uint.
func (t Token) Uint() uint64 { return t.bits }

// Float returns the value of a Float.
func (t Token) Float() float64 { return math.Float64frombits(t.bits) }

// Len returns the number of elements of a List, or of pairs of a Map.
func (t Token) Len() int { return int(t.bits) }

// ErrShort is the error of a document that ends too early.
var ErrShort = errors.New("msgpack ends too early")

// CodeError is the error of a byte that begins no value.
type CodeError byte

func (e CodeError) Error() string { return fmt.Sprintf("msgpack has no code %#x", byte(e)) }

// Reader reads a document.
type Reader struct {
	Rest []byte // the unread part
}

// Next reads a value, or the head of a list or map.
func (r *Reader) Next() (Token, error) {
	head, err := r.take(1)
	if err != nil {
		return Token{}, err
	}
	switch c := head[0]; c {
	default:
		switch {
		case c <= 0x7f:
			return Token{Kind: Int, bits: uint64(c)}, nil
		case c <= 0x8f:
			return r.container(Map, uint64(c&15), nil)
		case c <= 0x9f:
			return r.container(List, uint64(c&15), nil)
		case c <= 0xbf:
			return r.data(Text, uint64(c&31), nil)
		}
		return Token{Kind: Int, bits: uint64(int8(c))}, nil // from 0xe0
	case 0xc0:
		return Token{}, nil
	case 0xc2, 0xc3:
		return Token{Kind: Bool, bits: uint64(c & 1)}, nil
	case 0xc4, 0xc5, 0xc6:
		n, err := r.uint(1 << (c - 0xc4))
		return r.data(Bytes, n, err)
	case 0xc7, 0xc8, 0xc9:
		n, err := r.uint(1 << (c - 0xc7))
		return r.data(Ext, n, err)
	case 0xca:
		u, err := r.uint(4)
		return Token{Kind: Float, bits: math.Float64bits(float64(math.Float32frombits(uint32(u))))}, err
	case 0xcb:
		u, err := r.uint(8)
		return Token{Kind: Float, bits: u}, err
	case 0xcc, 0xcd, 0xce, 0xcf:
		u, err := r.uint(1 << (c - 0xcc))
		if u > math.MaxInt64 {
			return Token{Kind: Uint, bits: u}, err
		}
		return Token{Kind: Int, bits: u}, err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		u, err := r.uint(size)
		shift := 64 - 8*size
		return Token{Kind: Int, bits: uint64(int64(u<<shift) >> shift)}, err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.data(Ext, 1<<(c-0xd4), nil)
	case 0xd9, 0xda, 0xdb:
		n, err := r.uint(1 << (c - 0xd9))
		return r.data(Text, n, err)
	case 0xdc, 0xdd:
		n, err := r.uint(2 << (c - 0xdc))
		return r.container(List, n, err)
	case 0xde, 0xdf:
		n, err := r.uint(2 << (c - 0xde))
		return r.container(Map, n, err)
	case 0xc1:
		return Token{}, CodeError(c)
	}
}

// Skip skips a value, with all its elements, without recursion.
func (r *Reader) Skip() error {
	for left := 1; left > 0; left-- {
		t, err := r.Next()
		switch {
		case err != nil:
			return err
		case t.Kind == List:
			left += t.Len()
		case t.Kind == Map:
			left += 2 * t.Len()
		}
		if left-1 > len(r.Rest) { // each takes at least a byte
			return ErrShort
		}
	}
	return nil
}

func (r *Reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.Rest)) {
		return nil, ErrShort
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b, nil
}

// uint reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *Reader) uint(size int) (uint64, error) {
	b, err := r.take(uint64(size))
	var u uint64
	for _, c := range b {
		u = u<<8 | uint64(c)
	}
	return u, err
}

// data reads a text, bytes or an extension of n bytes, or returns err.
func (r *Reader) data(kind Kind, n uint64, err error) (Token, error) {
	t := Token{Kind: kind}
	if err == nil && kind == Ext {
		var code uint64
		code, err = r.uint(1)
		t.Type = int8(code)
	}
	if err == nil {
		t.Data, err = r.take(n)
	}
	return t, err
}

// container returns the head of a list or map, or err.
func (r *Reader) container(kind Kind, n uint64, err error) (Token, error) {
	least := n // each element takes at least a byte
	if kind == Map {
		least *= 2
	}
	if err == nil && least > uint64(len(r.Rest)) {
		err = ErrShort
	}
	return Token{Kind: kind, bits: n}, err
}

// TimestampType is the type of a timestamp's extension.
const TimestampType = -1

// Timestamp reads a timestamp from the data of an extension in one of its three forms; ok is false for other lengths.
// It doesn't check that the nanoseconds are less than a second.
func Timestamp(data []byte) (seconds int64, nanoseconds uint32, ok bool) {
	switch len(data) {
	case 4:
		return int64(binary.BigEndian.Uint32(data)), 0, true
	case 8:
		u := binary.BigEndian.Uint64(data)
		return int64(u & (1<<34 - 1)), uint32(u >> 34), true
	case 12:
		return int64(binary.BigEndian.Uint64(data[4:])), binary.BigEndian.Uint32(data), true
	}
	return 0, 0, false
}
