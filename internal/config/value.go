package config

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/yaml11"
)

// reader collects what is wrong with a file, so that one run names it all.
type reader struct {
	file     string
	errors   []error
	warnings []Warning
	lines    map[string]int
}

// value is a node of the file and the path of its key.
type value struct {
	*reader
	node *yaml.Node
	key  string
}

// entry is a value of a mapping with its own key.
type entry struct {
	name    string
	keyNode *yaml.Node
	value
}

// fail records that v is not what was expected.
func (v value) fail(expected string) {
	v.problem("must be " + expected + ", not " + kind(v.node))
}

func (v value) problem(problem string) {
	v.errors = append(v.errors, &Error{File: v.file, Line: v.node.Line, Column: v.node.Column, Key: v.key, Problem: problem})
}

func (e entry) warn(problem string) {
	e.warnings = append(e.warnings, Warning{File: e.file, Line: e.keyNode.Line, Column: e.keyNode.Column, Key: e.key, Problem: problem})
}

// kind says in plain words what a node is, without its value.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	scalar, err := yaml11.Scalar(n)
	if err != nil {
		return "a value with a tag or form that is not known here (quote a text that begins with !)"
	}
	switch scalar.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case *big.Int:
		return "a whole number"
	case float64:
		return "a number"
	case yaml11.Timestamp:
		return "a date"
	}
	return "a text"
}

func (v value) scalar() any {
	if v.node.Kind != yaml.ScalarNode {
		return v.node
	}
	scalar, err := yaml11.Scalar(v.node)
	if err != nil {
		return err
	}
	return scalar
}

func (v value) isNull() bool { return v.node.Kind == yaml.ScalarNode && v.scalar() == nil }

// plainName matches keys that are safe to show: a password in the place of a
// key is not among them.
var plainName = regexp.MustCompile(`^[A-Za-z][\w.-]{0,63}$`)

// entries are the entries of a mapping, in the file's order; none if v is not
// one, which is then an error.
func (v value) entries(expected string) []entry {
	if v.node.Kind != yaml.MappingNode {
		v.fail(expected)
		return nil
	}
	pairs, err := yaml11.Pairs(v.node)
	if err != nil {
		v.problem("cannot be read: " + strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	v.findDuplicates()
	entries := make([]entry, 0, len(pairs))
	for _, p := range pairs {
		e := entry{name: p.Key.Value, keyNode: p.Key, value: value{v.reader, p.Value, v.path(p.Key)}}
		if _, seen := v.lines[e.key]; !seen {
			v.lines[e.key] = p.Key.Line
		}
		entries = append(entries, e)
	}
	return entries
}

func (v value) path(key *yaml.Node) string {
	name := key.Value
	if !plainName.MatchString(name) {
		name = "(a key)"
	}
	if v.key == "" {
		return name
	}
	return v.key + "." + name
}

// findDuplicates warns of keys that are there twice: only the last counts.
func (v value) findDuplicates() {
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		if key.Kind == yaml.ScalarNode && seen[key.Value] {
			entry{key.Value, key, value{v.reader, key, v.path(key)}}.warn("is there twice; only the last one counts")
		}
		seen[key.Value] = true
	}
}

// section calls, for each entry of a mapping whose value is not null, the field
// of its name, and unknown for those that have none.
func (v value) section(fields map[string]func(value), unknown func(entry)) {
	if v.isNull() {
		return
	}
	for _, e := range v.entries("a mapping") {
		field, ok := fields[e.name]
		switch {
		case !ok:
			unknown(e)
		case !e.isNull():
			field(e.value)
		}
	}
}

func (v value) text() string {
	text, ok := v.scalar().(string)
	if !ok {
		v.fail("a text")
	}
	return text
}

// oneOf is a text of a few.
func (v value) oneOf(choices ...string) string {
	text, ok := v.scalar().(string)
	for _, choice := range choices {
		if ok && text == choice {
			return text
		}
	}
	v.fail(oneOfWords(choices) + didYouMean(text, choices))
	return ""
}

func oneOfWords(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// whole is a whole number of at least smallest.
func (v value) whole(smallest int64) int {
	i, ok := v.scalar().(*big.Int)
	if !ok || !i.IsInt64() || i.Int64() < smallest || i.Int64() > math.MaxInt32 {
		v.failNumber("a whole number", smallest)
		return 0
	}
	return int(i.Int64())
}

func (v value) failNumber(what string, smallest int64) {
	switch v.scalar().(type) {
	case *big.Int, float64:
		v.problem(fmt.Sprintf("must be %s of at least %d", what, smallest))
	default:
		v.fail(fmt.Sprintf("%s of at least %d", what, smallest))
	}
}

// number is a finite number of at least 0.
func (v value) number() float64 {
	var f float64
	switch n := v.scalar().(type) {
	case *big.Int:
		f, _ = new(big.Float).SetInt(n).Float64()
	case float64:
		f = n
	default:
		f = -1
	}
	if !(f >= 0) || math.IsInf(f, 0) {
		v.failNumber("a number", 0)
		return 0
	}
	return f
}

func (v value) flag() bool {
	b, ok := v.scalar().(bool)
	if !ok {
		v.fail("true or false")
	}
	return b
}

// seconds is a number of seconds.
func (v value) seconds() time.Duration {
	f := v.number()
	if f > maxDuration.Seconds() {
		v.problem("must be a number of seconds below 100 years")
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// texts is a list of texts, or one text that holds them separated by commas.
func (v value) texts() []string {
	var list []string
	if v.node.Kind == yaml.SequenceNode {
		for i, item := range v.node.Content {
			list = append(list, splitList(value{v.reader, item, fmt.Sprintf("%s[%d]", v.key, i)}.text())...)
		}
		return list
	}
	text, ok := v.scalar().(string)
	if !ok {
		v.fail("a text or a list of texts")
	}
	return splitList(text)
}

func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// setting is the text form of a scalar, as librdkafka takes it.
func (v value) setting() string {
	switch s := v.scalar().(type) {
	case string:
		return s
	case bool:
		return strconv.FormatBool(s)
	case *big.Int:
		return s.String()
	case float64:
		return strconv.FormatFloat(s, 'f', -1, 64)
	}
	v.fail("a text, a number, true or false")
	return ""
}
