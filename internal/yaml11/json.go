package yaml11

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/pytext"
)

// JSON returns a node of Parse as JSON; nil is null. Numbers keep all digits. Keys become texts as in Python's json
// module: null, true and numbers in their JSON form. Values without a JSON form are errors: dates, binary,
// infinities, keys that are lists.
func JSON(n *yaml.Node) (json.RawMessage, error) {
	if n == nil {
		return json.RawMessage("null"), nil
	}
	var buf bytes.Buffer
	if err := writeJSON(&buf, n); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func writeJSON(buf *bytes.Buffer, n *yaml.Node) error {
	if n.Style&yaml.TaggedStyle != 0 && (n.Kind == yaml.MappingNode && n.Tag != "!!map" || n.Kind == yaml.SequenceNode && n.Tag != "!!seq") {
		return fmt.Errorf("yaml: line %d: a value with this tag has no form in JSON", n.Line)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		buf.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := writeJSON(buf, item); err != nil {
				return err
			}
		}
		buf.WriteByte(']')
	case yaml.MappingNode:
		return writeObject(buf, n)
	default:
		text, err := scalarText(n)
		if err != nil {
			return err
		}
		buf.WriteString(text)
	}
	return nil
}

func writeObject(buf *bytes.Buffer, n *yaml.Node) error {
	pairs, err := Pairs(n)
	if err != nil {
		return err
	}
	buf.WriteByte('{')
	for i, p := range pairs {
		if i > 0 {
			buf.WriteByte(',')
		}
		key, err := scalarText(p.Key)
		if err != nil {
			return err
		}
		if key[0] != '"' {
			key = strconv.Quote(key)
		}
		buf.WriteString(key + ":")
		if err := writeJSON(buf, p.Value); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

// scalarText returns a scalar's JSON form.
func scalarText(n *yaml.Node) (string, error) {
	value, err := Scalar(n)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case *big.Int:
		return v.String(), nil
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			return pytext.Float(v), nil
		}
	case string:
		text, err := pytext.PlainJSON(v)
		return string(text), err
	}
	return "", fmt.Errorf("yaml: line %d: a date, binary or infinite value has no form in JSON", n.Line)
}

// Unambiguous returns an error if a mapping in a tree of Parse has a key twice, apart from keys that are merged into
// it. JSON uses the last one, as Python does.
func Unambiguous(n *yaml.Node) error {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		lines := map[any]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
				continue
			}
			identity, err := keyIdentity(key)
			if err != nil {
				return err
			}
			if first, again := lines[identity]; again {
				return fmt.Errorf("yaml: line %d: the key appears twice, first in line %d", key.Line, first)
			}
			lines[identity] = key.Line
		}
	}
	for _, item := range n.Content {
		if err := Unambiguous(item); err != nil {
			return err
		}
	}
	return nil
}

// keyIdentity distinguishes keys as a Python dict does: 1, 1.0 and true are equal.
func keyIdentity(key *yaml.Node) (any, error) {
	if key.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("yaml: line %d: a list or a mapping cannot be a key", key.Line)
	}
	value, err := Scalar(key)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case bool:
		return map[bool]string{false: "number 0", true: "number 1"}[v], nil
	case *big.Int:
		return "number " + v.String(), nil
	case float64:
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			whole, _ := big.NewFloat(v).Int(nil)
			return "number " + whole.String(), nil
		}
		return v, nil
	case []byte:
		return "binary " + string(v), nil
	case string:
		return "text " + v, nil
	case Timestamp:
		return v, nil
	}
	return nil, nil
}
