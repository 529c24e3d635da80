package celery

import (
	"bytes"
	"unicode/utf8"
)

const (
	// reprMaxLen and reprMaxLevels are Celery's argsrepr_maxsize and the default
	// of its task_repr_maxlevels.
	reprMaxLen    = 1024
	reprMaxLevels = 3
)

// appendRepr writes a value as celery.utils.saferepr does: much like Python's
// repr, but with strings between single quotes and only those quotes escaped,
// containers deeper than maxLevels shown as [...], and everything after
// maxLen characters left out. Lengths count characters, not bytes.
func (v *values) appendRepr(dst []byte, at int32, maxLen, maxLevels int) []byte {
	r := repr{v: v, dst: dst, left: maxLen, maxLevels: maxLevels}
	r.value(at)
	return r.dst
}

type repr struct {
	v         *values
	dst       []byte
	left      int // characters that may still be written
	level     int
	maxLevels int
}

// full ends the text once nothing more fits. It reports whether it did; the
// callers then unwind, each closing the container it has open. Those closing
// brackets aren't counted.
func (r *repr) full() bool {
	if r.left > 0 {
		return false
	}
	r.dst = append(r.dst, ", ..."...)
	return true
}

// literal writes a bracket or separator, which is never cut.
func (r *repr) literal(text string) bool {
	if r.full() {
		return false
	}
	r.dst = append(r.dst, text...)
	r.left -= len(text)
	return true
}

// value writes one value and reports whether there is more to come.
func (r *repr) value(at int32) bool {
	switch it := &r.v.items[at]; it.kind {
	case kindNull:
		return r.plain("None")
	case kindFalse:
		return r.plain("False")
	case kindTrue:
		return r.plain("True")
	case kindInt:
		return r.plain(string(it.text))
	case kindFloat:
		switch string(it.text) {
		case "NaN":
			return r.plain("nan")
		case "Infinity":
			return r.plain("inf")
		case "-Infinity":
			return r.plain("-inf")
		}
		return r.plain(string(it.text))
	case kindString:
		return r.quoted(it.text)
	case kindList:
		return r.container(it, '[', ']')
	default:
		return r.container(it, '{', '}')
	}
}

func (r *repr) container(it *item, open, end byte) bool {
	if r.level >= r.maxLevels {
		return r.literal(string([]byte{open, '.', '.', '.', end}))
	}
	if !r.literal(string(open)) {
		return false
	}
	r.level++
	more := true
	for child := it.first; child != none && more; child = r.v.items[child].next {
		if child != it.first {
			more = r.literal(", ")
		}
		if !more {
			break
		}
		if r.v.items[child].kind == kindKey {
			more = r.quoted(r.v.items[child].text) && r.literal(": ") && r.value(r.v.items[child].value)
		} else {
			more = r.value(child)
		}
	}
	r.level--
	r.dst = append(r.dst, end)
	if more && r.left > 0 {
		r.left--
	}
	return more
}

// plain writes a number or a constant, cut as any other text.
func (r *repr) plain(text string) bool {
	if r.full() {
		return false
	}
	start := len(r.dst)
	r.dst = appendTruncated(r.dst, []byte(text), r.left)
	r.left -= utf8.RuneCount(r.dst[start:])
	return true
}

func (r *repr) quoted(text []byte) bool {
	if r.full() {
		return false
	}
	start := len(r.dst)
	r.dst = append(r.dst, '\'')
	body := len(r.dst)
	r.dst = appendTruncated(r.dst, text, r.left)
	if bytes.IndexByte(r.dst[body:], '\'') >= 0 {
		escaped := bytes.ReplaceAll(r.dst[body:], []byte{'\''}, []byte{'\\', '\''})
		r.dst = append(r.dst[:body], escaped...)
	}
	r.dst = append(r.dst, '\'')
	r.left -= utf8.RuneCount(r.dst[start:])
	return true
}

// appendTruncated follows celery.utils.text.truncate: text of maxLen or more
// characters is cut there, then back to its last space, and marked.
func appendTruncated(dst, text []byte, maxLen int) []byte {
	if len(text) < maxLen || utf8.RuneCount(text) < maxLen {
		return append(dst, text...)
	}
	end := 0
	for range maxLen {
		_, size := utf8.DecodeRune(text[end:])
		end += size
	}
	cut := text[:end]
	if space := bytes.LastIndexByte(cut, ' '); space >= 0 {
		cut = cut[:space]
	}
	dst = append(dst, cut...)
	return append(dst, "..."...)
}
