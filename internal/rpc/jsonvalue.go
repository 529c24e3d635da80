package rpc

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"

	"swh-scheduler/internal/pytext"
)

// appendJSONValue writes a value that goes into a column of type jsonb, as
// Python's json.dumps would: what is neither None, bool, number, text, list nor
// dict is refused.
func appendJSONValue(dst []byte, value any) (json.RawMessage, error) {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case *big.Int:
		return v.Append(dst, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &exception{class: "InvalidTextRepresentation", module: "psycopg.errors",
				args: []any{"invalid input syntax for type json: NaN and the infinities are not JSON"}}
		}
		return append(dst, pytext.Float(v)...), nil
	case string:
		return appendJSONText(dst, v), nil
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendJSONValue(dst, element); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case dict:
		dst = append(dst, '{')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			key, err := jsonKey(e.key)
			if err != nil {
				return nil, err
			}
			dst = append(appendJSONText(dst, key), ':')
			if dst, err = appendJSONValue(dst, e.value); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, typeError("Object of type %s is not JSON serializable", typeName(value))
}

// jsonKey is the text that json.dumps makes of a key.
func jsonKey(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case nil, bool, int64, *big.Int, float64:
		text, err := appendJSONValue(nil, k)
		return string(text), err
	}
	return "", typeError("keys must be str, int, float, bool or None, not %s", typeName(key))
}

// elementsOf are the elements of a JSON list from the database.
func elementsOf(text json.RawMessage) []json.RawMessage {
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil {
		return nil // no list: it has no elements
	}
	return elements
}
