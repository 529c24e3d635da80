package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"time"
)

// msgpackWriter writes msgpack as Python's msgpack does, each number in the
// fewest bytes. Tags have bytes as keys.
type msgpackWriter struct {
	buf []byte
	err error
}

func (w *msgpackWriter) contentType() string { return mimeMsgpack }

func (w *msgpackWriter) finish() ([]byte, error) { return w.buf, w.err }

func (w *msgpackWriter) null() { w.buf = append(w.buf, 0xc0) }

func (w *msgpackWriter) boolean(b bool) {
	if b {
		w.buf = append(w.buf, 0xc3)
	} else {
		w.buf = append(w.buf, 0xc2)
	}
}

func (w *msgpackWriter) integer(i int64) {
	switch {
	case i >= 0 && i < 1<<7, i < 0 && i >= -1<<5:
		w.buf = append(w.buf, byte(i))
	case i >= 0 && i < 1<<8:
		w.buf = append(w.buf, 0xcc, byte(i))
	case i >= 0 && i < 1<<16:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xcd), uint16(i))
	case i >= 0 && i < 1<<32:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xce), uint32(i))
	case i >= 0:
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xcf), uint64(i))
	case i >= -1<<7:
		w.buf = append(w.buf, 0xd0, byte(i))
	case i >= -1<<15:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xd1), uint16(i))
	case i >= -1<<31:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xd2), uint32(i))
	default:
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xd3), uint64(i))
	}
}

func (w *msgpackWriter) bigInteger(i *big.Int) {
	switch {
	case i.IsInt64():
		w.integer(i.Int64())
	case i.IsUint64():
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xcf), i.Uint64())
	case i.Sign() > 0:
		w.extension(extLongInt, i.Bytes())
	default:
		w.extension(extLongNegInt, i.Bytes())
	}
}

func (w *msgpackWriter) float(f float64) {
	w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xcb), math.Float64bits(f))
}

func (w *msgpackWriter) text(s string) {
	if len(s) < 32 {
		w.buf = append(w.buf, 0xa0|byte(len(s)))
	} else {
		w.size(len(s), 0xd9, 0xda, 0xdb)
	}
	w.buf = append(w.buf, s...)
}

func (w *msgpackWriter) bytes(b []byte) {
	w.size(len(b), 0xc4, 0xc5, 0xc6)
	w.buf = append(w.buf, b...)
}

// size writes a length after the code for one of 8, 16 or 32 bits.
func (w *msgpackWriter) size(n int, code8, code16, code32 byte) {
	switch {
	case n < 1<<8:
		w.buf = append(w.buf, code8, byte(n))
	case n < 1<<16:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, code16), uint16(n))
	default:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, code32), uint32(n))
	}
}

func (w *msgpackWriter) extension(kind int8, data []byte) {
	switch len(data) {
	case 1, 2, 4, 8, 16:
		codes := map[int]byte{1: 0xd4, 2: 0xd5, 4: 0xd6, 8: 0xd7, 16: 0xd8}
		w.buf = append(w.buf, codes[len(data)])
	default:
		w.size(len(data), 0xc7, 0xc8, 0xc9)
	}
	w.buf = append(append(w.buf, byte(kind)), data...)
}

// time writes a timestamp in the shortest of its three forms.
func (w *msgpackWriter) time(t time.Time) {
	seconds, nanoseconds := t.Unix(), t.Nanosecond()
	minusOne := byte(0xff)
	switch {
	case seconds < 0 || seconds >= 1<<34:
		w.buf = append(w.buf, 0xc7, 12, minusOne)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(nanoseconds))
		w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(seconds))
	case nanoseconds == 0 && seconds < 1<<32:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xd6, minusOne), uint32(seconds))
	default:
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xd7, minusOne), uint64(nanoseconds)<<34|uint64(seconds))
	}
}

func (w *msgpackWriter) openList(n int)  { w.head(n, 0x90, 0xdc, 0xdd) }
func (w *msgpackWriter) closeList()      {}
func (w *msgpackWriter) openDict(n int)  { w.head(n, 0x80, 0xde, 0xdf) }
func (w *msgpackWriter) closeDict()      {}
func (w *msgpackWriter) key(name string) { w.text(name) }
func (w *msgpackWriter) intKey(i int)    { w.integer(int64(i)) }

func (w *msgpackWriter) head(n int, short, code16, code32 byte) {
	switch {
	case n < 16:
		w.buf = append(w.buf, short|byte(n))
	case n < 1<<16:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, code16), uint16(n))
	default:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, code32), uint32(n))
	}
}

func (w *msgpackWriter) openTag(name string) {
	w.buf = append(w.buf, "\x82\xc4\x07swhtype"...)
	w.text(name)
	w.buf = append(w.buf, "\xc4\x01d"...)
}

func (w *msgpackWriter) closeTag() {}

func (w *msgpackWriter) json(text json.RawMessage) {
	switch string(text) { // by far the most
	case "{}":
		w.openDict(0)
		return
	case "[]":
		w.openList(0)
		return
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := w.transcode(d); err != nil && w.err == nil {
		w.err = err
	}
}

// transcode writes the next JSON value. How many elements a list or dict has is
// known at its end only, so room is left for that.
func (w *msgpackWriter) transcode(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case nil:
		w.null()
	case bool:
		w.boolean(t)
	case string:
		w.text(t)
	case json.Number:
		return w.number(t.String())
	case json.Delim:
		code := byte(0xdd)
		if t == '{' {
			code = 0xdf
		}
		head := len(w.buf)
		w.buf = append(w.buf, code, 0, 0, 0, 0)
		n := uint32(0)
		for ; d.More(); n++ {
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				w.text(key.(string))
			}
			if err := w.transcode(d); err != nil {
				return err
			}
		}
		binary.BigEndian.PutUint32(w.buf[head+1:], n)
		_, err = d.Token()
	}
	return err
}

func (w *msgpackWriter) number(text string) error {
	n, err := readNumber(text)
	switch v := n.(type) {
	case int64:
		w.integer(v)
	case *big.Int:
		w.bigInteger(v)
	case float64:
		w.float(v)
	}
	return err
}
