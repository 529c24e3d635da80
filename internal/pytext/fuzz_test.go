package pytext

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// Repr returns a Python literal of the JSON text's value, and refuses invalid JSON.
func FuzzRepr(f *testing.F) {
	for _, text := range []string{
		`{"a": [1.5, null, "x"], "b": {}}`, `"it's"`, `"it's \"so\""`, `"\\ \n\r\t\u0000\u007f\u00a0\u2028\ud83d\ude00\u00e9"`,
		`{"a": 1, "a": 2}`, `-0`, `-0.0`, `1e16`, `1E-5`, `1e999`, `-1e999`, `123456789012345678901`, `[[], {}, true, false]`, `1 2`, `[1 2]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		repr, err := Repr(text)
		if !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q is no JSON, and written as %s", text, repr)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		r := literalReader{rest: repr}
		got, err := r.value()
		if err != nil || r.rest != "" {
			t.Fatalf("%q is written as %s: %v at %q", text, repr, err, r.rest)
		}
		if want = inPython(want); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is written as %s, which is %#v, not %#v", text, repr, got, want)
		}
	})
}

// inPython replaces the numbers of a value by Python's: a float, or the digits of an int.
func inPython(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = inPython(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = inPython(v[key])
		}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, _ := strconv.ParseFloat(v.String(), 64) // infinite if it is too large
			return f
		}
		if v == "-0" {
			return json.Number("0")
		}
	}
	return value
}

// literalReader reads Python literals in repr's form, without other spaces, quotes or escapes.
type literalReader struct{ rest string }

func (r *literalReader) take(prefix string) bool {
	rest, found := strings.CutPrefix(r.rest, prefix)
	r.rest = rest
	return found
}

func (r *literalReader) value() (any, error) {
	for literal, value := range map[string]any{"None": nil, "True": true, "False": false} {
		if r.take(literal) {
			return value, nil
		}
	}
	switch {
	case r.take("["):
		list := []any{}
		err := r.elements("]", func() error {
			element, err := r.value()
			list = append(list, element)
			return err
		})
		return list, err
	case r.take("{"):
		dict := map[string]any{}
		err := r.elements("}", func() error {
			key, err := r.text()
			if err != nil {
				return err
			}
			if _, again := dict[key]; again || !r.take(": ") {
				return fmt.Errorf("key %q comes again or has no value", key)
			}
			dict[key], err = r.value()
			return err
		})
		return dict, err
	case strings.HasPrefix(r.rest, "'") || strings.HasPrefix(r.rest, `"`):
		return r.text()
	}
	return r.number()
}

// elements reads elements separated by commas, up to end.
func (r *literalReader) elements(end string, element func() error) error {
	for first := true; !r.take(end); first = false {
		if !first && !r.take(", ") {
			return fmt.Errorf("no comma")
		}
		if err := element(); err != nil {
			return err
		}
	}
	return nil
}

func (r *literalReader) number() (any, error) {
	n := strings.IndexAny(r.rest, ",:]}")
	if n < 0 {
		n = len(r.rest)
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	if strings.Trim(text, "-0123456789") == "" {
		return json.Number(text), nil
	}
	return strconv.ParseFloat(text, 64) // reads inf as well
}

func (r *literalReader) text() (string, error) {
	if r.rest == "" || !strings.Contains(`'"`, r.rest[:1]) {
		return "", fmt.Errorf("no quote")
	}
	quote := r.rest[:1]
	r.rest = r.rest[1:]
	var b strings.Builder
	for !r.take(quote) {
		c, size := utf8.DecodeRuneInString(r.rest)
		if size == 0 {
			return "", fmt.Errorf("no end of a text")
		}
		r.rest = r.rest[size:]
		if c == '\\' {
			var err error
			if c, err = r.escape(quote); err != nil {
				return "", err
			}
		} else if !strconv.IsPrint(c) {
			return "", fmt.Errorf("%q is not escaped", c)
		}
		b.WriteRune(c)
	}
	text := b.String()
	if want := strings.Contains(text, "'") && !strings.Contains(text, `"`); want != (quote == `"`) {
		return "", fmt.Errorf("%q is between %s", text, quote)
	}
	return text, nil
}

// escape reads the part of an escape after the backslash.
func (r *literalReader) escape(quote string) (rune, error) {
	for short, c := range map[string]rune{`\`: '\\', "n": '\n', "r": '\r', "t": '\t', quote: rune(quote[0])} {
		if r.take(short) {
			return c, nil
		}
	}
	for letter, digits := range map[string]int{"x": 2, "u": 4, "U": 8} {
		if len(r.rest) > digits && r.take(letter) {
			code, err := strconv.ParseUint(r.rest[:digits], 16, 32)
			r.rest = r.rest[digits:]
			if strconv.IsPrint(rune(code)) {
				return 0, fmt.Errorf("%q is escaped", rune(code))
			}
			return rune(code), err
		}
	}
	return 0, fmt.Errorf("no such escape")
}
