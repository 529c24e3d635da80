package rpc

import (
	"encoding/binary"
	"strings"
)

// JSON holds bytes in Python's base 85 (RFC 1924's digits). It differs from Go's encoding/ascii85 in its digits and
// in having no abbreviations.
const base85Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// appendBase85 writes four bytes as five digits; what is left over at the end,
// n bytes, as n+1 digits.
func appendBase85(dst, src []byte) []byte {
	for len(src) > 0 {
		var group [4]byte
		n := copy(group[:], src)
		src = src[n:]
		u := binary.BigEndian.Uint32(group[:])
		var digits [5]byte
		for i := 4; i >= 0; i-- {
			digits[i] = base85Digits[u%85]
			u /= 85
		}
		dst = append(dst, digits[:n+1]...)
	}
	return dst
}

func decodeBase85(text string) ([]byte, error) {
	out := make([]byte, 0, len(text)/5*4+4)
	for at := 0; at < len(text); at += 5 {
		group := text[at:min(at+5, len(text))]
		var u uint64
		for i := range 5 {
			digit := 84 // a short group is filled up with the last digit
			if i < len(group) {
				if digit = strings.IndexByte(base85Digits, group[i]); digit < 0 {
					return nil, valueError("bad base85 character at position %d", at+i)
				}
			}
			u = u*85 + uint64(digit)
		}
		if u > 1<<32-1 {
			return nil, valueError("base85 overflow in hunk starting at byte %d", at)
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(u))
		out = append(out, b[:len(group)-1]...)
	}
	return out, nil
}
