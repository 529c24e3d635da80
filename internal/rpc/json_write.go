package rpc

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/pytext"
)

// jsonWriter writes JSON. It writes types that JSON lacks, such as dates and bytes, as tagged objects.
type jsonWriter struct {
	buf  []byte
	room func(size int) error // called before buf grows to this size; nil: no limit
	err  error                // the first; nothing is written after it
}

func (w *jsonWriter) contentType() string { return mimeJSON }

func (w *jsonWriter) finish() ([]byte, error) { return w.buf, w.err }

func (w *jsonWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// fits reports whether n more bytes may be written, and reserves room for them.
func (w *jsonWriter) fits(n int) bool {
	if w.err == nil && w.room != nil && len(w.buf)+n > cap(w.buf) {
		w.fail(w.room(len(w.buf) + n))
	}
	if w.err == nil {
		w.buf = slices.Grow(w.buf, n)
	}
	return w.err == nil
}

// separate writes a comma between two values. The first value of a list, of a dict or after a key follows a
// character that ends no value.
func (w *jsonWriter) separate() {
	if len(w.buf) == 0 {
		return
	}
	switch w.buf[len(w.buf)-1] {
	case '[', '{', ':':
	default:
		w.buf = append(w.buf, ',')
	}
}

func (w *jsonWriter) word(s string) {
	if w.fits(len(s) + 1) {
		w.separate()
		w.buf = append(w.buf, s...)
	}
}

func (w *jsonWriter) null()                 { w.word("null") }
func (w *jsonWriter) boolean(b bool)        { w.word(strconv.FormatBool(b)) }
func (w *jsonWriter) integer(i int64)       { w.word(strconv.FormatInt(i, 10)) }
func (w *jsonWriter) bigInteger(i *big.Int) { w.word(i.String()) }
func (w *jsonWriter) float(f float64)       { w.word(pytext.JSONFloat(f)) }

func (w *jsonWriter) text(s string) {
	if w.fits(jsonTextSize(s) + 1) {
		w.separate()
		w.buf = appendJSONText(w.buf, s)
	}
}

// jsonTextSize returns how many bytes appendJSONText appends, or a little more.
func jsonTextSize(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20:
			n += 5
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}

const hexDigits = "0123456789abcdef"

// appendJSONText writes a text with escapes where JSON needs them.
func appendJSONText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func (w *jsonWriter) bytes(b []byte) {
	w.openTag("bytes")
	w.text(string(appendBase85(nil, b)))
	w.closeTag()
}

func (w *jsonWriter) time(t time.Time) {
	w.openTag("datetime")
	w.text(pytext.ISOFormat(t))
	w.closeTag()
}

func (w *jsonWriter) json(text json.RawMessage) {
	if !json.Valid(text) {
		w.fail(errNoJSON)
	}
	if w.fits(len(text) + 1) {
		w.separate()
		w.buf = append(w.buf, text...)
	}
}

func (w *jsonWriter) openList(int) { w.word("[") }
func (w *jsonWriter) closeList()   { w.end(']') }
func (w *jsonWriter) openDict()    { w.word("{") }
func (w *jsonWriter) closeDict()   { w.end('}') }

func (w *jsonWriter) end(c byte) {
	if w.fits(1) {
		w.buf = append(w.buf, c)
	}
}

func (w *jsonWriter) key(name string) {
	if w.fits(jsonTextSize(name) + 2) {
		w.separate()
		w.buf = append(appendJSONText(w.buf, name), ':')
	}
}

func (w *jsonWriter) intKey(i int) { w.key(strconv.Itoa(i)) }

func (w *jsonWriter) openTag(name string) {
	w.openDict()
	w.key("swhtype")
	w.text(name)
	w.key("d")
}

func (w *jsonWriter) closeTag() { w.closeDict() }
