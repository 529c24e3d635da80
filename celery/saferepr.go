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
// containers deeper than reprMaxLevels shown as [...], and everything after
// reprMaxLen characters (not bytes) left out.
func (v *values) appendRepr(dst []byte, at int32) []byte {
	r := repr{v: v, dst: dst, left: reprMaxLen}
	r.value(at)
	return r.dst
}

type repr struct {
	v     *values
	dst   []byte
	left  int // characters that may still be written
	level int
}

// full ends the text once nothing more fits, and reports whether it did. The
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

// value writes one value, or a key with its value, and reports whether there is
// room for more.
func (r *repr) value(at int32) bool {
	switch it := &r.v.items[at]; it.kind {
	case kindNull:
		return r.plain("None")
	case kindFalse:
		return r.plain("False")
	case kindTrue:
		return r.plain("True")
	case kindInt, kindFloat:
		switch text := string(it.text); text {
		case "NaN":
			return r.plain("nan")
		case "Infinity":
			return r.plain("inf")
		case "-Infinity":
			return r.plain("-inf")
		default:
			return r.plain(text)
		}
	case kindString:
		return r.quoted(it.text)
	case kindKey:
		return r.quoted(it.text) && r.literal(": ") && r.value(it.value)
	case kindList:
		return r.container(it, '[', ']')
	default:
		return r.container(it, '{', '}')
	}
}

func (r *repr) container(it *item, open, end byte) bool {
	if r.level >= reprMaxLevels {
		return r.literal(string([]byte{open, '.', '.', '.', end}))
	}
	if !r.literal(string(open)) {
		return false
	}
	r.level++
	more := true
	for child := it.first; child != none && more; child = r.v.items[child].next {
		more = (child == it.first || r.literal(", ")) && r.value(child)
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
	r.dst = appendTruncated(append(r.dst, '\''), text, r.left)
	if body := r.dst[start+1:]; bytes.IndexByte(body, '\'') >= 0 {
		r.dst = append(r.dst[:start+1], bytes.ReplaceAll(body, []byte(`'`), []byte(`\'`))...)
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
	return append(append(dst, cut...), "..."...)
}
