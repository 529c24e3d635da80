package pytext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

// IndentedJSON equals Python's textwrap.indent(json.dumps(value, indent=4), prefix).
func IndentedJSON(value json.RawMessage, prefix string) string {
	var b bytes.Buffer
	if json.Indent(&b, value, prefix, "    ") != nil {
		return prefix + string(value)
	}
	var ascii strings.Builder
	ascii.WriteString(prefix)
	for _, r := range b.String() {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return ascii.String()
}

// PlainJSON returns v as JSON without escapes for HTML.
func PlainJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
