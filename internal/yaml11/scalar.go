package yaml11

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Timestamp is the text of a date, with or without a time.
type Timestamp string

// The forms of https://yaml.org/type/ as PyYAML narrows them.
var (
	intForm = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*(?::[0-5]?[0-9])*)$`)
	// A float has a dot, and a sign in its exponent.
	floatForm     = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)$`)
	timestampForm = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?)$`)
)

var words = map[string]any{
	"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
	"yes": true, "Yes": true, "YES": true, "no": false, "No": false, "NO": false,
	"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false,
	"on": true, "On": true, "ON": true, "off": false, "Off": false, "OFF": false,
	".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
	"+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
	"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
	".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
}

// Scalar returns the value of a scalar node: nil, a bool, a *big.Int, a float64, a string, a
// Timestamp, or []byte for binary.
func Scalar(n *yaml.Node) (any, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return tagged(n)
	case n.Style&quoted != 0:
		return n.Value, nil
	}
	return plain(n)
}

// plain resolves a scalar without quotes or a tag.
func plain(n *yaml.Node) (any, error) {
	if v, ok := words[n.Value]; ok {
		return v, nil
	}
	switch {
	case intForm.MatchString(n.Value):
		return integer(n)
	case floatForm.MatchString(n.Value):
		return float(n)
	case timestampForm.MatchString(n.Value):
		return Timestamp(n.Value), nil
	}
	if n.Value == "=" || n.Value == "<<" { // YAML 1.1 reserves these two
		return nil, fmt.Errorf("yaml: line %d: %s must be quoted", n.Line, n.Value)
	}
	return n.Value, nil
}

// tagged resolves a scalar with an explicit tag.
func tagged(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!str":
		return n.Value, nil
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, fmt.Errorf("yaml: line %d: not base64", n.Line)
		}
		return b, nil
	case "!!null":
		return nil, nil
	case "!!int":
		return integer(n)
	case "!!float":
		return float(n)
	case "!!bool":
		if b, ok := words[strings.ToLower(n.Value)].(bool); ok {
			return b, nil
		}
	case "!!timestamp":
		if timestampForm.MatchString(n.Value) {
			return Timestamp(n.Value), nil
		}
	default:
		return nil, fmt.Errorf("yaml: line %d: an unknown tag", n.Line)
	}
	return nil, malformed(n, strings.TrimPrefix(n.Tag, "!!"))
}

func malformed(n *yaml.Node, what string) error {
	return fmt.Errorf("yaml: line %d: not a value of type %s", n.Line, what)
}

func integer(n *yaml.Node) (any, error) {
	text := strings.ReplaceAll(n.Value, "_", "")
	negative := strings.HasPrefix(text, "-")
	text = strings.TrimLeft(text, "+-")
	parts, base := []string{text}, 10
	switch {
	case strings.HasPrefix(text, "0b"):
		parts[0], base = text[2:], 2
	case strings.HasPrefix(text, "0x"):
		parts[0], base = text[2:], 16
	case strings.HasPrefix(text, "0") && len(text) > 1:
		base = 8
	default:
		parts = strings.Split(text, ":") // of base 60
	}
	i := new(big.Int)
	for _, part := range parts {
		digits, ok := new(big.Int).SetString(part, base)
		if !ok {
			return nil, malformed(n, "int")
		}
		i.Mul(i, big.NewInt(60)).Add(i, digits)
	}
	if negative {
		i.Neg(i)
	}
	return i, nil
}

func float(n *yaml.Node) (any, error) {
	if f, ok := words[strings.ToLower(n.Value)].(float64); ok {
		return f, nil
	}
	text := strings.ReplaceAll(n.Value, "_", "")
	sign := 1.0
	if strings.HasPrefix(text, "-") {
		sign = -1
	}
	text = strings.TrimLeft(text, "+-")
	total := 0.0
	for part := range strings.SplitSeq(text, ":") {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil && !math.IsInf(f, 0) { // out of range is infinite, as in Python
			return nil, malformed(n, "float")
		}
		total = 60*total + f
	}
	return sign * total, nil
}
