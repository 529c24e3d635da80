package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"slices"
	"time"

	"swh-scheduler/internal/msgpack"
)

// msgpackWriter writes msgpack as Python's msgpack does, each number in the
// fewest bytes. Tags have bytes as keys.
type msgpackWriter struct {
	buf  []byte
	open []openDict           // unfinished dicts, each within the one before
	room func(size int) error // called before buf grows to this size; nil: no limit
	err  error                // the first; no text is written after it
}

// fits reports whether n more bytes may be written. Values of a fixed length are written without it.
func (w *msgpackWriter) fits(n int) bool {
	if w.err == nil && w.room != nil && len(w.buf)+n > cap(w.buf) {
		w.err = w.room(len(w.buf) + n)
	}
	return w.err == nil
}

// openDict is a dict whose number of keys is not known yet.
type openDict struct {
	at   int // of its head in buf
	keys int
}

func (w *msgpackWriter) contentType() string { return mimeMsgpack }

func (w *msgpackWriter) finish() ([]byte, error) { return w.buf, w.err }

func (w *msgpackWriter) null()            { w.buf = msgpack.AppendNil(w.buf) }
func (w *msgpackWriter) boolean(b bool)   { w.buf = msgpack.AppendBool(w.buf, b) }
func (w *msgpackWriter) integer(i int64)  { w.buf = msgpack.AppendInt(w.buf, i) }
func (w *msgpackWriter) float(f float64)  { w.buf = msgpack.AppendFloat(w.buf, f) }
func (w *msgpackWriter) time(t time.Time) { w.buf = msgpack.AppendTime(w.buf, t) }
func (w *msgpackWriter) openList(n int)   { w.buf = msgpack.AppendList(w.buf, n) }
func (w *msgpackWriter) closeList()       {}
func (w *msgpackWriter) closeTag()        {}

func (w *msgpackWriter) text(s string) {
	if w.fits(len(s) + maxHead) {
		w.buf = msgpack.AppendText(w.buf, s)
	}
}

func (w *msgpackWriter) bytes(b []byte) {
	if w.fits(len(b) + maxHead) {
		w.buf = msgpack.AppendBytes(w.buf, b)
	}
}

// maxHead is the length of the longest head of a value.
const maxHead = 5

func (w *msgpackWriter) bigInteger(i *big.Int) {
	switch {
	case i.IsInt64():
		w.integer(i.Int64())
	case i.IsUint64():
		w.buf = msgpack.AppendUint(w.buf, i.Uint64())
	case i.Sign() > 0:
		w.buf = msgpack.AppendExt(w.buf, extLongInt, i.Bytes())
	default:
		w.buf = msgpack.AppendExt(w.buf, extLongNegInt, i.Bytes())
	}
}

// openDict reserves the one byte that the head of most dicts takes.
func (w *msgpackWriter) openDict() {
	w.open = append(w.open, openDict{at: len(w.buf)})
	w.buf = append(w.buf, 0)
}

func (w *msgpackWriter) key(name string) {
	w.open[len(w.open)-1].keys++
	w.text(name)
}

func (w *msgpackWriter) intKey(i int) {
	w.open[len(w.open)-1].keys++
	w.integer(int64(i))
}

func (w *msgpackWriter) closeDict() {
	last := len(w.open) - 1
	d := w.open[last]
	w.open = w.open[:last]
	var room [5]byte
	head := msgpack.AppendMap(room[:0], d.keys)
	w.buf[d.at] = head[0]
	w.buf = slices.Insert(w.buf, d.at+1, head[1:]...)
}

func (w *msgpackWriter) openTag(name string) {
	w.buf = append(w.buf, "\x82\xc4\x07swhtype"...)
	w.text(name)
	w.buf = append(w.buf, "\xc4\x01d"...)
}

func (w *msgpackWriter) json(text json.RawMessage) {
	if !w.fits(len(text)) {
		return
	}
	switch string(text) { // by far the most
	case "{}":
		w.buf = msgpack.AppendMap(w.buf, 0)
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

// transcode writes the next JSON value. The number of elements of a list or dict is known only at its end, so
// transcode reserves room for it.
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
