package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"swh-scheduler/internal/pgjson"
)

// readJSON reads a JSON document, which must be all of src.
func readJSON(src []byte, l limits) (any, error) {
	if !utf8.Valid(src) {
		return nil, &exception{class: "UnicodeDecodeError", args: []string{"the request is not UTF-8"}}
	}
	if longestToken(src) > maxText {
		return nil, tooLarge("the request holds a text or a number of more than %d bytes", maxText)
	}
	r := jsonReader{d: json.NewDecoder(bytes.NewReader(src)), limits: l}
	r.d.UseNumber()
	v, err := r.value()
	if err == nil {
		if _, end := r.d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("extra data after the document")
		}
	}
	if err != nil {
		if _, ours := errors.AsType[*exception](err); ours {
			return nil, err
		}
		return nil, &exception{class: "JSONDecodeError", module: "json.decoder", args: []string{"the request is not JSON: " + err.Error()}}
	}
	if fault := pgjson.CheckPairs(src); fault != nil {
		return nil, &exception{class: "ValueError", args: []string{fault.Error()}, status: http.StatusBadRequest}
	}
	return v, nil
}

type jsonReader struct {
	d *json.Decoder
	limits
}

func (r *jsonReader) value() (any, error) {
	if err := r.spend(1); err != nil {
		return nil, err
	}
	token, err := r.d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return readNumber(t.String())
	case json.Delim:
		if err := r.enter(); err != nil {
			return nil, err
		}
		defer r.leave()
		if t == '[' {
			return r.list()
		}
		return r.dict()
	}
	return token, nil // nil, bool or string
}

func (r *jsonReader) list() (any, error) {
	list := []any{}
	for r.d.More() {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.d.Token()
	return list, err
}

func (r *jsonReader) dict() (any, error) {
	d := dict{}
	for r.d.More() {
		key, err := r.d.Token()
		if err != nil {
			return nil, err
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		d = append(d, entry{key, value})
	}
	if _, err := r.d.Token(); err != nil {
		return nil, err
	}
	return d.untagged(true, &r.limits)
}

// longestToken returns the length in bytes of the longest text or number of a JSON document, with escapes.
func longestToken(src []byte) (longest int) {
	run := 0
	for i := 0; i < len(src); i++ {
		run++
		switch src[i] {
		case '"':
			begin := i
			for i++; i < len(src) && src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
			run = i - begin
			longest = max(longest, run)
			run = 0
		case ',', ':', '[', ']', '{', '}', ' ', '\t', '\n', '\r':
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// readNumber reads a number as Python does: without fraction and exponent it is
// an integer of any size.
func readNumber(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > maxIntegerDigits {
			return nil, valueError("Exceeds the limit (%d digits) for integer string conversion", maxIntegerDigits)
		}
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		i, _ := new(big.Int).SetString(text, 10)
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

// maxIntegerDigits is Python's limit.
const maxIntegerDigits = 4300

func untagBytes(value any) (any, error) {
	if text, ok := value.(string); ok {
		return decodeBase85(text)
	}
	return nil, typeError("a bytes-like object or ASCII string is required, not '%s'", typeName(value))
}
