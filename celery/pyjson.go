package celery

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// appendPythonFloat writes a JSON number with a fraction or an exponent as
// Python's repr gives the float it stands for; json.dumps writes the same.
func appendPythonFloat(dst, text []byte) ([]byte, error) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return dst, err
	}
	switch {
	case math.IsInf(f, 1):
		return append(dst, textInfinity...), nil
	case math.IsInf(f, -1):
		return append(dst, textNegInfinity...), nil
	}
	// Python writes an exponent below 1e-4 and from 1e16 on.
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64), nil
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !bytes.Contains(dst[start:], []byte{'.'}) {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

// appendJSON writes a value as Python's json.dumps does by default.
func (v *values) appendJSON(dst []byte, at int32) []byte {
	switch it := &v.items[at]; it.kind {
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
	case kindList:
		dst = append(dst, '[')
		for child := it.first; child != none; child = v.items[child].next {
			if child != it.first {
				dst = append(dst, ", "...)
			}
			dst = v.appendJSON(dst, child)
		}
		return append(dst, ']')
	default:
		dst = append(dst, '{')
		for key := it.first; key != none; key = v.items[key].next {
			if key != it.first {
				dst = append(dst, ", "...)
			}
			dst = appendJSONString(dst, &v.items[key])
			dst = append(dst, ": "...)
			dst = v.appendJSON(dst, v.items[key].value)
		}
		return append(dst, '}')
	}
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

const hexDigits = "0123456789abcdef"

// appendEscaped escapes everything but printable ASCII, characters outside
// the basic plane as surrogate pairs.
func appendEscaped(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c >= 0x20 && c <= 0x7e:
				dst = append(dst, c)
			case c == '\n':
				dst = append(dst, `\n`...)
			case c == '\r':
				dst = append(dst, `\r`...)
			case c == '\t':
				dst = append(dst, `\t`...)
			case c == '\b':
				dst = append(dst, `\b`...)
			case c == '\f':
				dst = append(dst, `\f`...)
			default:
				dst = appendUnit(dst, uint16(c))
			}
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		i += size
		if r >= 0x10000 {
			r -= 0x10000
			dst = appendUnit(dst, uint16(0xd800+(r>>10)))
			dst = appendUnit(dst, uint16(0xdc00+(r&0x3ff)))
		} else {
			dst = appendUnit(dst, uint16(r))
		}
	}
	return dst
}

func appendUnit(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
