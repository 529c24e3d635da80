package pytext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Repr equals Python's repr(json.loads(text)), but halves of surrogate pairs become U+FFFD.
func Repr(text json.RawMessage) (string, error) {
	if !json.Valid(text) {
		return "", fmt.Errorf("not JSON: %.100q", text)
	}
	repr, err := nextRepr(decoder(text))
	if err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	return repr, nil
}

func decoder(text json.RawMessage) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d
}

// TupleRepr equals Python's repr(tuple(json.loads(list))).
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

// nextRepr returns repr of the decoder's next value.
func nextRepr(d *json.Decoder) (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			members, err := restOfObject(d, func(key string) string { return String(key) + ": " })
			return "{" + strings.Join(members, ", ") + "}", err
		}
		var items []string
		for d.More() {
			item, err := nextRepr(d)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		_, err := d.Token()
		return "[" + strings.Join(items, ", ") + "]", err
	case bool:
		return Bool(t), nil
	case json.Number:
		return number(t.String()), nil
	case string:
		return String(t), nil
	}
	return "None", nil
}

// restOfObject returns the members of the decoder's current object, with keys formatted by before. A repeated key has
// its last value, in the place of the first.
func restOfObject(d *json.Decoder, before func(key string) string) ([]string, error) {
	places := map[string]int{}
	var members []string
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := nextRepr(d)
		if err != nil {
			return nil, err
		}
		key := token.(string)
		place, again := places[key]
		if !again {
			place, members = len(members), append(members, "")
			places[key] = place
		}
		members[place] = before(key) + value
	}
	_, err := d.Token()
	return members, err
}

// Call formats a call's arguments as Python does. Workers may report them as texts.
func Call(args, kwargs json.RawMessage) (list, dict string, call []string, err error) {
	var text string
	if json.Unmarshal(args, &text) == nil {
		list, call = text, append(call, strings.Trim(text, "()[]"))
	} else {
		var items []json.RawMessage
		if err := json.Unmarshal(args, &items); err != nil {
			return "", "", nil, fmt.Errorf("its arguments are no list: %w", err)
		}
		for _, item := range items {
			repr, err := Repr(item)
			if err != nil {
				return "", "", nil, err
			}
			call = append(call, repr)
		}
		list = "[" + strings.Join(call, ", ") + "]"
	}
	if json.Unmarshal(kwargs, &text) == nil {
		return list, text, append(call, "**"+text), nil
	}
	if dict, err = Repr(kwargs); err != nil {
		return "", "", nil, err
	}
	d := decoder(kwargs)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return list, dict, call, errors.New("its keyword arguments are no object")
	}
	named, err := restOfObject(d, func(key string) string { return key + "=" })
	return list, dict, append(call, named...), err
}

// number equals repr of a number: integers unchanged, others as Python's float.
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

// Float is repr of a finite f: the shortest digits that identify f, with an exponent below
// 1e-4 and from 1e16, and always a dot or an exponent.
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

// JSONFloat is json.dumps of f, which has names for what JSON lacks.
func JSONFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return Float(f)
}

func String(s string) string {
	var b strings.Builder
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
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r <= utf8.MaxRune:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

func Bool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// OrNone returns text of the value that value points to, or None.
func OrNone[T any](value *T, text func(T) string) string {
	if value == nil {
		return "None"
	}
	return text(*value)
}

// Thousands equals Python's f"{n:,}".
func Thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
