package celery

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"swh-scheduler/internal/pytext"
)

// values holds JSON values as Python's json.loads would build them, in flat
// slices that are reused from message to message. Numbers keep their text, so
// that an integer of any size stays an integer; an object keeps its keys in
// the order in which they first came, each with its last value, as a Python
// dict does.
type values struct {
	scanner
	items   []item
	decoded []byte // strings that had escapes, and floats
}

type itemKind uint8

const (
	kindNull itemKind = iota
	kindFalse
	kindTrue
	kindInt
	kindFloat
	kindString
	kindList
	kindDict
	kindKey
)

// item is one value, or one key of a dict. Children are chained by next: the
// elements of a list, or the keys of a dict, each with the index of its value.
type item struct {
	kind  itemKind
	ascii bool   // a string that JSON can hold unescaped, between quotes
	text  []byte // a string, or a number as Python writes it; never changed once set
	first int32
	last  int32
	next  int32
	value int32
	count int32
}

const (
	none = int32(-1)

	// maxDigits is the longest integer that Python converts from text by default.
	maxDigits = 4300

	// smallDict is the number of keys up to which duplicates are found by comparison. Above it, a map is faster.
	smallDict = 16
)

func (v *values) reset() {
	v.items, v.decoded = v.items[:0], v.decoded[:0]
}

// parse reads one JSON document and returns the index of its root.
func (v *values) parse(src []byte) (int32, error) {
	if _, err := validJSON(src, "null"); err != nil {
		return none, err
	}
	v.scanner = scanner{src: src}
	v.separators()
	root := v.parseValue()
	return root, v.err
}

func (v *values) add(it item) int32 {
	it.first, it.last, it.next, it.value = none, none, none, none
	v.items = append(v.items, it)
	return int32(len(v.items) - 1)
}

// chain adds a child to a list or dict.
func (v *values) chain(parent, child int32) {
	p := &v.items[parent]
	if p.last == none {
		p.first = child
	} else {
		v.items[p.last].next = child
	}
	p.last = child
	p.count++
}

func (v *values) parseValue() int32 {
	switch v.src[v.pos] {
	case '[':
		list := v.add(item{kind: kindList})
		v.elements(func() { v.chain(list, v.parseValue()) })
		return list
	case '{':
		return v.parseDict()
	case '"':
		text, ascii := v.parseText()
		return v.add(item{kind: kindString, text: text, ascii: ascii})
	}
	switch text := v.value(); text[0] {
	case 'n':
		return v.add(item{kind: kindNull})
	case 'f':
		return v.add(item{kind: kindFalse})
	case 't':
		return v.add(item{kind: kindTrue})
	default:
		return v.add(v.parseNumber(text))
	}
}

func (v *values) parseDict() int32 {
	dict := v.add(item{kind: kindDict})
	var seen map[string]int32
	find := func(text []byte) int32 {
		if seen != nil {
			if key, ok := seen[string(text)]; ok {
				return key
			}
			return none
		}
		key := v.items[dict].first
		for key != none && !bytes.Equal(v.items[key].text, text) {
			key = v.items[key].next
		}
		return key
	}
	v.elements(func() {
		text, ascii := v.parseText()
		if seen == nil && v.items[dict].count >= smallDict {
			seen = make(map[string]int32, 2*smallDict)
			for k := v.items[dict].first; k != none; k = v.items[k].next {
				seen[string(v.items[k].text)] = k
			}
		}
		key := find(text)
		if key == none {
			key = v.add(item{kind: kindKey, text: text, ascii: ascii})
			v.chain(dict, key)
			if seen != nil {
				seen[string(text)] = key
			}
		}
		v.separators()
		child := v.parseValue()
		v.items[key].value = child
	})
	return dict
}

// fail records the first error of the document.
func (v *values) fail(err error) { v.err = cmp.Or(v.err, err) }

// parseText reads a string. It returns its UTF-8 form, and reports whether that
// needs no escaping in JSON.
func (v *values) parseText() (text []byte, ascii bool) {
	start := v.pos + 1
	ascii = v.text()
	raw := v.src[start : v.pos-1]
	switch {
	case ascii:
		return raw, true
	case !utf8.Valid(raw):
		v.fail(errors.New("text isn't valid UTF-8"))
		return nil, false
	case bytes.IndexByte(raw, '\\') < 0:
		return raw, false
	}
	return v.decode(raw), false
}

// decode returns a string without its escapes.
func (v *values) decode(raw []byte) []byte {
	start := len(v.decoded)
	for {
		escape := bytes.IndexByte(raw, '\\')
		if escape < 0 {
			v.decoded = append(v.decoded, raw...)
			return v.decoded[start:]
		}
		v.decoded = append(v.decoded, raw[:escape]...)
		c := raw[escape+1]
		raw = raw[escape+2:]
		if c != 'u' {
			if i := strings.IndexByte("bfnrt", c); i >= 0 {
				c = "\b\f\n\r\t"[i]
			}
			v.decoded = append(v.decoded, c)
			continue
		}
		r := hex4(raw)
		raw = raw[4:]
		if utf16.IsSurrogate(r) {
			low := utf8.RuneError
			if bytes.HasPrefix(raw, []byte(`\u`)) {
				low = hex4(raw[2:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				v.fail(errLoneSurrogate)
				return nil
			}
			raw = raw[6:]
		}
		v.decoded = utf8.AppendRune(v.decoded, r)
	}
}

// hex4 reads the four hexadecimal digits of an escaped UTF-16 code unit.
func hex4(b []byte) rune {
	u, _ := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(u)
}

var errLoneSurrogate = errors.New("text holds half a surrogate pair, which has no UTF-8 form")

// parseNumber reads a number. It rewrites a float as Python's repr and json.dumps do.
func (v *values) parseNumber(text []byte) item {
	if !bytes.ContainsAny(text, ".eENI") {
		digits := bytes.TrimPrefix(text, []byte("-"))
		if len(digits) > maxDigits {
			v.fail(fmt.Errorf("an integer has more than %d digits, which Python refuses", maxDigits))
		}
		if digits[0] == '0' {
			text = digits // Python has no negative zero among integers
		}
		return item{kind: kindInt, text: text}
	}
	f, _ := strconv.ParseFloat(string(text), 64) // infinite if it is out of range
	start := len(v.decoded)
	v.decoded = append(v.decoded, pytext.JSONFloat(f)...)
	return item{kind: kindFloat, text: v.decoded[start:]}
}
