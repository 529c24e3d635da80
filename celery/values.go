package celery

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// values holds JSON values as Python's json.loads would build them, in flat
// slices that are reused from message to message. Numbers keep their text, so
// that an integer of any size stays an integer; an object keeps its keys in
// the order in which they first came, each with its last value, as a Python
// dict does.
type values struct {
	items []item
	text  []byte // strings that had escapes, decoded

	src   []byte
	pos   int
	depth int
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

// item is one value, or one key of a dict. Children are chained: a list's by
// next, a dict's keys by next, each key pointing to its value.
type item struct {
	kind  itemKind
	ascii bool   // a string that JSON can carry as it is, between quotes
	text  []byte // a string, or a number's text; never changed once set
	first int32
	next  int32
	value int32
	count int32
}

const (
	none = int32(-1)

	// maxDepth bounds nesting, where Python gives up too.
	maxDepth = 1000

	// maxDigits is the longest integer that Python converts from text by default.
	maxDigits = 4300

	// smallDict is how many keys are compared one by one to find duplicates,
	// before a map is worth it.
	smallDict = 16
)

func (v *values) reset() {
	v.items = v.items[:0]
	v.text = v.text[:0]
}

var errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

var errLoneSurrogate = errors.New("text holds half a surrogate pair, which has no UTF-8 form")

// parse reads one JSON document and returns the index of its root. NaN,
// Infinity and -Infinity are taken too, as Python takes them.
func (v *values) parse(src []byte) (int32, error) {
	v.src, v.pos, v.depth = src, 0, 0
	root, err := v.parseValue()
	if err != nil {
		return none, err
	}
	v.space()
	if v.pos != len(v.src) {
		return none, v.unexpected()
	}
	return root, nil
}

func (v *values) add(it item) int32 {
	it.first, it.next, it.value = none, none, none
	v.items = append(v.items, it)
	return int32(len(v.items) - 1)
}

func (v *values) space() {
	for v.pos < len(v.src) {
		switch v.src[v.pos] {
		case ' ', '\t', '\n', '\r':
			v.pos++
		default:
			return
		}
	}
}

func (v *values) unexpected() error {
	if v.pos >= len(v.src) {
		return errors.New("JSON ends too early")
	}
	return fmt.Errorf("unexpected %q at byte %d of JSON", v.src[v.pos], v.pos)
}

func (v *values) literal(text string, it item) (int32, error) {
	if !bytes.HasPrefix(v.src[v.pos:], []byte(text)) {
		return none, v.unexpected()
	}
	v.pos += len(text)
	return v.add(it), nil
}

var (
	textNaN         = []byte("NaN")
	textInfinity    = []byte("Infinity")
	textNegInfinity = []byte("-Infinity")
)

func (v *values) parseValue() (int32, error) {
	v.space()
	if v.pos >= len(v.src) {
		return none, v.unexpected()
	}
	switch c := v.src[v.pos]; c {
	case 'n':
		return v.literal("null", item{kind: kindNull})
	case 't':
		return v.literal("true", item{kind: kindTrue})
	case 'f':
		return v.literal("false", item{kind: kindFalse})
	case 'N':
		return v.literal("NaN", item{kind: kindFloat, text: textNaN})
	case 'I':
		return v.literal("Infinity", item{kind: kindFloat, text: textInfinity})
	case '"':
		it := item{kind: kindString}
		var err error
		if it.text, it.ascii, err = v.parseString(); err != nil {
			return none, err
		}
		return v.add(it), nil
	case '[', '{':
		if v.depth++; v.depth > maxDepth {
			return none, errTooDeep
		}
		var at int32
		var err error
		if c == '[' {
			at, err = v.parseList()
		} else {
			at, err = v.parseDict()
		}
		v.depth--
		return at, err
	case '-':
		if bytes.HasPrefix(v.src[v.pos:], textNegInfinity) {
			return v.literal("-Infinity", item{kind: kindFloat, text: textNegInfinity})
		}
		return v.parseNumber()
	default:
		if c >= '0' && c <= '9' {
			return v.parseNumber()
		}
		return none, v.unexpected()
	}
}

func (v *values) parseList() (int32, error) {
	list := v.add(item{kind: kindList})
	v.pos++
	v.space()
	if v.pos < len(v.src) && v.src[v.pos] == ']' {
		v.pos++
		return list, nil
	}
	last := none
	for {
		child, err := v.parseValue()
		if err != nil {
			return none, err
		}
		if last == none {
			v.items[list].first = child
		} else {
			v.items[last].next = child
		}
		v.items[list].count++
		last = child
		v.space()
		if v.pos >= len(v.src) {
			return none, v.unexpected()
		}
		switch v.src[v.pos] {
		case ',':
			v.pos++
		case ']':
			v.pos++
			return list, nil
		default:
			return none, v.unexpected()
		}
	}
}

func (v *values) parseDict() (int32, error) {
	dict := v.add(item{kind: kindDict})
	v.pos++
	v.space()
	if v.pos < len(v.src) && v.src[v.pos] == '}' {
		v.pos++
		return dict, nil
	}
	last := none
	var seen map[string]int32
	for {
		v.space()
		if v.pos >= len(v.src) || v.src[v.pos] != '"' {
			return none, v.unexpected()
		}
		text, ascii, err := v.parseString()
		if err != nil {
			return none, err
		}
		key := none
		if seen == nil && v.items[dict].count >= smallDict {
			seen = make(map[string]int32, 2*smallDict)
			for k := v.items[dict].first; k != none; k = v.items[k].next {
				seen[string(v.items[k].text)] = k
			}
		}
		if seen != nil {
			if k, ok := seen[string(text)]; ok {
				key = k
			}
		} else {
			for k := v.items[dict].first; k != none; k = v.items[k].next {
				if bytes.Equal(v.items[k].text, text) {
					key = k
					break
				}
			}
		}
		if key == none {
			key = v.add(item{kind: kindKey, text: text, ascii: ascii})
			if last == none {
				v.items[dict].first = key
			} else {
				v.items[last].next = key
			}
			v.items[dict].count++
			last = key
			if seen != nil {
				seen[string(text)] = key
			}
		}
		v.space()
		if v.pos >= len(v.src) || v.src[v.pos] != ':' {
			return none, v.unexpected()
		}
		v.pos++
		child, err := v.parseValue()
		if err != nil {
			return none, err
		}
		v.items[key].value = child
		v.space()
		if v.pos >= len(v.src) {
			return none, v.unexpected()
		}
		switch v.src[v.pos] {
		case ',':
			v.pos++
		case '}':
			v.pos++
			return dict, nil
		default:
			return none, v.unexpected()
		}
	}
}

func (v *values) digits() int {
	start := v.pos
	for v.pos < len(v.src) && v.src[v.pos] >= '0' && v.src[v.pos] <= '9' {
		v.pos++
	}
	return v.pos - start
}

func (v *values) parseNumber() (int32, error) {
	start := v.pos
	if v.src[v.pos] == '-' {
		v.pos++
	}
	zero := v.pos < len(v.src) && v.src[v.pos] == '0'
	whole := v.digits()
	if whole == 0 || zero && whole > 1 {
		return none, v.unexpected()
	}
	kind := kindInt
	if v.pos < len(v.src) && v.src[v.pos] == '.' {
		kind = kindFloat
		v.pos++
		if v.digits() == 0 {
			return none, v.unexpected()
		}
	}
	if v.pos < len(v.src) && (v.src[v.pos] == 'e' || v.src[v.pos] == 'E') {
		kind = kindFloat
		v.pos++
		if v.pos < len(v.src) && (v.src[v.pos] == '+' || v.src[v.pos] == '-') {
			v.pos++
		}
		if v.digits() == 0 {
			return none, v.unexpected()
		}
	}
	text := v.src[start:v.pos]
	switch {
	case kind == kindFloat:
		at := len(v.text)
		var err error
		if v.text, err = appendPythonFloat(v.text, text); err != nil {
			return none, err
		}
		text = v.text[at:]
	case whole > maxDigits:
		return none, fmt.Errorf("an integer has more than %d digits, which Python refuses", maxDigits)
	case zero:
		text = text[len(text)-1:] // Python knows no negative zero among integers
	}
	return v.add(item{kind: kind, text: text}), nil
}

// parseString reads a string and returns its UTF-8 form, and whether that
// needs no escaping in JSON.
func (v *values) parseString() ([]byte, bool, error) {
	v.pos++
	start := v.pos
	ascii := true
	for ; v.pos < len(v.src); v.pos++ {
		switch c := v.src[v.pos]; {
		case c == '"':
			text := v.src[start:v.pos]
			v.pos++
			if !ascii && !utf8.Valid(text) {
				return nil, false, errors.New("text isn't valid UTF-8")
			}
			return text, ascii, nil
		case c == '\\':
			return v.parseEscaped(start)
		case c < 0x20:
			return nil, false, v.unexpected()
		case c > 0x7e:
			ascii = false
		}
	}
	return nil, false, v.unexpected()
}

func (v *values) parseEscaped(start int) ([]byte, bool, error) {
	at := len(v.text)
	v.text = append(v.text, v.src[start:v.pos]...)
	for v.pos < len(v.src) {
		c := v.src[v.pos]
		switch {
		case c == '"':
			v.pos++
			text := v.text[at:]
			if !utf8.Valid(text) {
				return nil, false, errors.New("text isn't valid UTF-8")
			}
			return text, false, nil
		case c < 0x20:
			return nil, false, v.unexpected()
		case c != '\\':
			v.text = append(v.text, c)
			v.pos++
			continue
		}
		v.pos++
		if v.pos >= len(v.src) {
			break
		}
		switch c := v.src[v.pos]; c {
		case '"', '\\', '/':
			v.text = append(v.text, c)
		case 'b':
			v.text = append(v.text, '\b')
		case 'f':
			v.text = append(v.text, '\f')
		case 'n':
			v.text = append(v.text, '\n')
		case 'r':
			v.text = append(v.text, '\r')
		case 't':
			v.text = append(v.text, '\t')
		case 'u':
			r, ok := hex4(v.src[v.pos+1:])
			if !ok {
				return nil, false, v.unexpected()
			}
			v.pos += 4
			if utf16.IsSurrogate(r) {
				next := v.src[v.pos+1:]
				if len(next) < 2 || next[0] != '\\' || next[1] != 'u' {
					return nil, false, errLoneSurrogate
				}
				low, ok := hex4(next[2:])
				if !ok {
					return nil, false, v.unexpected()
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return nil, false, errLoneSurrogate
				}
				v.pos += 6
			}
			v.text = utf8.AppendRune(v.text, r)
		default:
			return nil, false, v.unexpected()
		}
		v.pos++
	}
	return nil, false, v.unexpected()
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			r |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return r, true
}
