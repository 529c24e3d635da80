package celery

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendJSON writes a value as Python's json.dumps does by default.
func (v *values) appendJSON(dst []byte, at int32) []byte {
	it := &v.items[at]
	brackets := "[]"
	switch it.kind {
	case kindNull:
		return append(dst, "null"...)
	case kindFalse:
		return append(dst, "false"...)
	case kindTrue:
		return append(dst, "true"...)
	case kindInt, kindFloat:
		return append(dst, it.text...)
	case kindString:
		return appendJSONString(dst, it)
	case kindKey:
		dst = append(appendJSONString(dst, it), ": "...)
		return v.appendJSON(dst, it.value)
	case kindDict:
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	for child := it.first; child != none; child = v.items[child].next {
		if child != it.first {
			dst = append(dst, ", "...)
		}
		dst = v.appendJSON(dst, child)
	}
	return append(dst, brackets[1])
}

func appendJSONString(dst []byte, it *item) []byte {
	dst = append(dst, '"')
	if it.ascii {
		dst = append(dst, it.text...)
	} else {
		dst = appendEscaped(dst, it.text)
	}
	return append(dst, '"')
}

// appendEscaped escapes everything but printable ASCII, characters outside
// the basic plane as surrogate pairs.
func appendEscaped(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= 0x20 && r <= 0x7e:
			dst = append(dst, byte(r))
		case r >= '\b' && r <= '\r' && r != '\v':
			dst = append(dst, '\\', "btn fr"[r-'\b'])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		default:
			dst = appendUnit(dst, r)
		}
	}
	return dst
}

// appendUnit escapes one UTF-16 code unit.
func appendUnit(dst []byte, u rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
