package rpc

import (
	"encoding/json"
	"math"
	"math/big"
)

// appendJSONValue writes a value for a column of type jsonb, as Python's json.dumps would. It refuses a value that
// is neither None, bool, number, text, list nor dict.
func appendJSONValue(dst []byte, value any) (json.RawMessage, error) {
	return appendBoundedJSON(dst, value, maxJSON)
}

// appendBoundedJSON is appendJSONValue with a maximum length.
func appendBoundedJSON(dst []byte, value any, most int) (json.RawMessage, error) {
	w := jsonWriter{buf: dst, room: func(size int) error {
		if size > most {
			return tooLarge("the request's values have more than %d bytes as JSON; send fewer at a time", maxJSON)
		}
		return nil
	}}
	w.value(value)
	return w.buf, w.err
}

func (w *jsonWriter) value(value any) {
	if w.err != nil {
		return
	}
	switch v := value.(type) {
	case nil:
		w.null()
	case bool:
		w.boolean(v)
	case int64:
		w.integer(v)
	case *big.Int:
		w.bigInteger(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.fail(psycopgError("InvalidTextRepresentation", "invalid input syntax for type json: NaN and the infinities are not JSON"))
		}
		w.float(v)
	case string:
		w.text(v)
	case []any:
		w.openList(len(v))
		for _, element := range v {
			w.value(element)
		}
		w.closeList()
	case dict:
		w.openDict()
		for _, e := range v {
			key, err := jsonKey(e.key)
			if err != nil {
				w.fail(err)
				return
			}
			w.key(key)
			w.value(e.value)
		}
		w.closeDict()
	default:
		w.fail(typeError("Object of type %s is not JSON serializable", typeName(value)))
	}
}

// jsonKey returns the text of a key as json.dumps writes it.
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
