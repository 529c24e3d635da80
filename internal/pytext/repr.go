package pytext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Repr is repr(json.loads(text)). Halves of surrogate pairs become U+FFFD.
func Repr(text json.RawMessage) (string, error) {
	if !json.Valid(text) {
		return "", fmt.Errorf("not JSON: %.100q", text)
	}
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := writeRepr(&b, d); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	return b.String(), nil
}

// TupleRepr is repr(tuple(json.loads(list))).
func TupleRepr(list json.RawMessage) (string, error) {
	text, err := Repr(list)
	if err != nil {
		return "", err
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(list, &elements); err != nil {
		return "", fmt.Errorf("not a list: %w", err)
	}
	inner := text[1 : len(text)-1]
	if len(elements) == 1 {
		inner += ","
	}
	return "(" + inner + ")", nil
}

func writeRepr(b *strings.Builder, d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return writeDict(b, d)
		}
		return writeList(b, d)
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(Bool(t))
	case json.Number:
		b.WriteString(number(t.String()))
	case string:
		writeString(b, t)
	}
	return nil
}

// writeList writes the rest of a list.
func writeList(b *strings.Builder, d *json.Decoder) error {
	b.WriteByte('[')
	for first := true; d.More(); first = false {
		if !first {
			b.WriteString(", ")
		}
		if err := writeRepr(b, d); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	_, err := d.Token()
	return err
}

// writeDict writes the rest of an object. A key that comes again has its last
// value, in the place of the first.
func writeDict(b *strings.Builder, d *json.Decoder) error {
	var keys []string
	values := map[string]string{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key := token.(string)
		var value strings.Builder
		if err := writeRepr(&value, d); err != nil {
			return err
		}
		if _, again := values[key]; !again {
			keys = append(keys, key)
		}
		values[key] = value.String()
	}
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		writeString(b, key)
		b.WriteString(": ")
		b.WriteString(values[key])
	}
	b.WriteByte('}')
	_, err := d.Token()
	return err
}

// number is a whole number as it stands, and any other as Python's float.
func number(text string) string {
	if text == "-0" {
		return "0"
	}
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil:
		return Float(f)
	case f < 0:
		return "-inf"
	}
	return "inf"
}

// Float is repr of a finite f: the shortest digits that give f again, with an
// exponent below 1e-4 and from 1e16 on, and always a dot or an exponent.
func Float(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if f == math.Trunc(f) {
		text += ".0"
	}
	return text
}

// String is repr of a text.
func String(s string) string {
	var b strings.Builder
	writeString(&b, s)
	return b.String()
}

func writeString(b *strings.Builder, s string) {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		case r <= utf8.MaxRune:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
}

// Bool is str of a bool.
func Bool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
