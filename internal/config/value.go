package config

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/yaml11"
)

// reader collects all errors and warnings of a file.
type reader struct {
	file     string
	errors   []error
	warnings []Warning
	lines    map[string]int
	accepted func(key string) // called with each key that a mapping of the file may have; nil: not called
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

// source returns the source of a node: the file, or --option, whose nodes have no line.
func (r *reader) source(n *yaml.Node) string {
	if n.Line == 0 {
		return "--option"
	}
	return r.file
}

// fail reports what was expected, and the kind of the value unless that is among right.
func (v value) fail(expected string, right ...string) {
	if name := unreplaced(v.node); name != "" {
		expected += ", and is " + name + notReplaced
	} else if is := kind(v.node); !slices.Contains(right, is) {
		expected += ", not " + is
	}
	v.problem("must be " + expected)
}

const notReplaced = ", which nothing has replaced by the value of that variable"

var (
	variable  = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	isAddress = regexp.MustCompile(`://|=`)
)

// unreplaced returns the name of a template's variable in a value, such as ${NAME}, or "". The variable is the whole
// value, or a part of an address. A percent-encoded one in an address is literal text.
func unreplaced(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	name := variable.FindString(n.Value)
	if name != n.Value && !isAddress.MatchString(n.Value) {
		return ""
	}
	return name
}

// replaced reports an error if the value is, or contains, a template's variable.
func (v value) replaced() {
	if name := unreplaced(v.node); name != "" {
		problem := "has " + name + notReplaced
		if name == v.node.Value {
			problem = "is " + name + notReplaced
		}
		v.problem(problem)
	}
}

func (v value) problem(problem string) { v.errors = append(v.errors, v.error(problem)) }

func (v value) error(problem string) *Error {
	return &Error{File: v.source(v.node), Line: v.node.Line, Column: v.node.Column, Key: v.key, Problem: problem}
}

func (e entry) warn(problem string) {
	e.warnings = append(e.warnings, Warning{File: e.source(e.keyNode), Line: e.keyNode.Line, Column: e.keyNode.Column, Key: e.key, Problem: problem})
}

// kind names the kind of a node, without its value, which may be a password.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	scalar, err := yaml11.Scalar(n)
	if err != nil {
		return "a value with an unknown tag or form (quote a text that begins with !)"
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

// plainName matches keys that are safe to print. A password in a key's place does not match.
var plainName = regexp.MustCompile(`^[A-Za-z][\w.-]{0,63}$`)

// longName matches names of hosters and of queues with a prefix, but no address with a password.
var longName = regexp.MustCompile(`^[\w.-]{1,64}([:/][\w.-]{1,64}){0,2}$`)

// namesOnly reports whether the value is of a section whose keys are names and hold no secrets.
func (v value) namesOnly() bool {
	section, _, _ := strings.Cut(v.key, ".")
	return slices.Contains([]string{"gone_origins", "hosters", "shares", "lanes", "lost_after", "archive", "scheduling_policy"}, section)
}

// entries returns the entries of a mapping, in the file's order. Any other value is an
// error of the file.
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
	if !plainName.MatchString(name) && !(v.namesOnly() && longName.MatchString(name)) {
		name = "(a key)"
	}
	if v.key == "" {
		return name
	}
	return v.key + "." + name
}

func (v value) findDuplicates() {
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		if key.Kind == yaml.ScalarNode && seen[key.Value] {
			entry{key.Value, key, value{v.reader, key, v.path(key)}}.warn("is given twice; the last one is used")
		}
		seen[key.Value] = true
	}
}

// section calls the field of each entry whose value is not null. It warns of entries that are neither in fields nor
// in others.
func (v value) section(fields map[string]func(value), others []string) {
	v.sectionWith(fields, func(e entry) { e.unknown(keysOf(fields), others) })
}

// both reports a problem if only one of two keys is left out.
func (v value) both(oneMissing, otherMissing bool, keys string) {
	if oneMissing != otherMissing {
		v.problem("must have both " + keys + ", or none")
	}
}

// fieldsOf returns functions that set the fields of *into, by the keys in their tags. It covers the types below and
// the fields of also. Numbers are at least 1.
func fieldsOf(into any, also map[string]func(value)) map[string]func(value) {
	fields := map[string]func(value){}
	at := reflect.ValueOf(into).Elem()
	for i := range at.NumField() {
		key, _, _ := strings.Cut(at.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		switch field := at.Field(i).Addr().Interface().(type) {
		case *bool:
			fields[key] = func(v value) { *field = v.flag() }
		case *int:
			fields[key] = func(v value) { *field = v.whole(1) }
		case *string:
			fields[key] = func(v value) { *field = v.text() }
		case *Secret:
			fields[key] = func(v value) { *field = Secret(v.text()) }
		case *[]string:
			fields[key] = func(v value) { *field = v.texts() }
		}
	}
	maps.Copy(fields, also)
	return fields
}

// mapping reads a mapping from any names to values read by read; null is none.
func mapping[T any](v value, expected string, read func(value) T) map[string]T {
	if v.isNull() {
		return nil
	}
	all := map[string]T{}
	for _, e := range v.entries(expected) {
		all[e.name] = read(e.value)
	}
	return all
}

// sectionWith is section with a function for entries that have no field.
func (v value) sectionWith(fields map[string]func(value), unknown func(entry)) {
	if v.isNull() {
		return
	}
	v.accept(fields)
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

// accept calls accepted with the keys of fields.
func (v value) accept(fields map[string]func(value)) {
	if v.accepted != nil {
		for name := range fields {
			v.accepted(strings.TrimPrefix(v.key+"."+name, "."))
		}
	}
}

func (v value) item(i int) value {
	return value{v.reader, v.node.Content[i], fmt.Sprintf("%s[%d]", v.key, i)}
}

func (v value) text() string {
	text, ok := v.scalar().(string)
	if !ok {
		v.fail("a text")
	}
	v.replaced()
	return text
}

func (v value) oneOf(choices ...string) string {
	text, ok := v.scalar().(string)
	if ok && slices.Contains(choices, text) {
		return text
	}
	last := len(choices) - 1
	v.fail(strings.Join(choices[:last], ", ")+" or "+choices[last]+didYouMean(text, choices), "a text")
	return ""
}

// whole reads an integer from smallest to 2³¹-1.
func (v value) whole(smallest int64) int {
	i, ok := v.scalar().(*big.Int)
	switch {
	case ok && i.Cmp(big.NewInt(math.MaxInt32)) > 0:
		v.problem(fmt.Sprintf("must be a whole number of at most %d", math.MaxInt32))
		return 0
	case !ok || i.Cmp(big.NewInt(smallest)) < 0:
		v.failNumber("a whole number", smallest)
		return 0
	}
	return int(i.Int64())
}

func (v value) failNumber(what string, smallest int64) {
	v.fail(fmt.Sprintf("%s of at least %d", what, smallest), "a whole number", "a number")
}

// number reads a finite number of at least 0.
func (v value) number() float64 {
	f := -1.0
	switch n := v.scalar().(type) {
	case *big.Int:
		f, _ = new(big.Float).SetInt(n).Float64()
	case float64:
		f = n
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

func (v value) seconds() time.Duration {
	f := v.number()
	if f > pytext.MaxDuration.Seconds() {
		v.problem("must be a number of seconds below 100 years")
		return 0
	}
	return model.Duration(f)
}

// texts reads a list of texts, or one text of them separated by commas.
func (v value) texts() []string {
	var list []string
	if v.node.Kind == yaml.SequenceNode {
		for i := range v.node.Content {
			list = append(list, splitList(v.item(i).text())...)
		}
		return list
	}
	text, ok := v.scalar().(string)
	if !ok {
		v.fail("a text or a list of texts")
	}
	v.replaced()
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

// address reads the root of an HTTP API.
func (v value) address() Secret {
	text := v.text()
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		v.problem("must be a URL such as https://mq.example:15671")
	}
	return Secret(text)
}

func (v value) setting() string {
	switch s := v.scalar().(type) {
	case string:
		v.replaced()
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
