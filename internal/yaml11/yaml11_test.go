package yaml11

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJSON(t *testing.T) {
	for _, tc := range []struct{ yaml, want string }{
		{"", "null"},
		{"# nothing", "null"},
		{"~", "null"},
		{"yes", "true"},
		{"'yes'", `"yes"`},
		{"Off", "false"},
		{"012", "10"},
		{"08", `"08"`},
		{"0x_1F", "31"},
		{"-0b11", "-3"},
		{"1_000", "1000"},
		{"1:30", "90"},
		{"-1:00:00", "-3600"},
		{"123456789012345678901234567890", "123456789012345678901234567890"},
		{"1e3", `"1e3"`},
		{"1.0e+3", "1000.0"},
		{"1.5e-7", "1.5e-07"},
		{"1:30.5", "90.5"},
		{"!!str 12", `"12"`},
		{"!!float 3", "3.0"},
		{"[a, 1, {b: null}]", `["a",1,{"b":null}]`},
		{"{1: a, yes: b, null: c, 1.50: d}", `{"1":"b","null":"c","1.5":"d"}`},
		{"{a: 1, a: 2}", `{"a":2}`},
		{"base: &b {x: 1, y: 2}\nuse: {y: 3, <<: *b}", `{"base":{"x":1,"y":2},"use":{"x":1,"y":3}}`},
		{"{<<: [{a: 1}, {a: 2, b: 3}], c: 4}", `{"a":1,"b":3,"c":4}`},
	} {
		root, err := Parse([]byte(tc.yaml))
		if err != nil {
			t.Errorf("%q: %v", tc.yaml, err)
			continue
		}
		if got, err := JSON(root); err != nil || string(got) != tc.want {
			t.Errorf("%q: got %s, %v, want %s", tc.yaml, got, err, tc.want)
		}
	}
}

// bomb repeats the line before nine times in each line.
const bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
	"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"

func TestErrors(t *testing.T) {
	for _, tc := range []struct{ yaml, want string }{
		{"a: [1", "line"},
		{"a: 1\n---\nb: 2", "second document"},
		{"&a [*a]", "contains itself"},
		{"a: *secret", "unknown anchor"},
		{bomb, "too large"},
		{"2020-01-01", "no form in JSON"},
		{".nan", "no form in JSON"},
		{"-.inf", "no form in JSON"},
		{"!!binary aGVsbG8=", "no form in JSON"},
		{"!!binary '&'", "not base64"},
		{"!!set {a, b}", "no form in JSON"},
		{"!!python/none x", "an unknown tag"},
		{"!!int x", "not a value of type int"},
		{"!!bool x", "not a value of type bool"},
		{"0b_", "not a value of type int"},
		{"{[a]: b}", "cannot be a key"},
		{"{<<: 3}", "to merge"},
		{"=", "must be quoted"},
	} {
		root, err := Parse([]byte(tc.yaml))
		if err == nil {
			_, err = JSON(root)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: got error %v, want one with %q", tc.yaml, err, tc.want)
		}
	}
}

// oracle is a Python program that returns PyYAML's value of each text of a JSON list, as JSON, or null for an error.
const oracle = `
import json, sys, yaml
def value(text):
    try:
        return json.dumps(yaml.safe_load(text), allow_nan=False, separators=(",", ":"))
    except Exception:
        return None
json.dump([value(text) for text in json.load(sys.stdin)], sys.stdout)
`

// Scalars have the Python components' values.
func TestScalarsAgreeWithPyYAML(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`[-+]?[0-9_:.xbeo]{0,8}([eE][-+]?[0-9]{1,2})?`)
	word := rapid.StringMatching(`[-+.]?(y|Y|n|N|yes|Yes|YES|yEs|no|on|off|OFF|true|TRUE|false|null|NULL|~|inf|Inf|INF|nan|NaN|NAN|=|<<)?`)
	date := rapid.StringMatching(`20[0-9]{2}-[01]?[0-9]-[0-3]?[0-9]([Tt ] ?[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{0,3})?( ?Z|[-+][0-9]{1,2}(:[0-9]{2})?)?)?`)
	tagged := rapid.StringMatching(`!!(int|float|str|bool|null) [-+]?[0-9a-f.:_]{1,4}`)
	var texts []string
	first := int(seed.Of(t))
	for i := first; i < first+1500; i++ {
		texts = append(texts, number.Example(i), word.Example(i), date.Example(i), tagged.Example(i))
	}
	stdin, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	python := exec.Command(testenv.Python(t), "-c", oracle)
	python.Stdin = bytes.NewReader(stdin)
	out, err := python.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []*string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		root, err := Parse([]byte(text))
		var got json.RawMessage
		if err == nil {
			got, err = JSON(root)
		}
		switch {
		case want[i] == nil && err == nil:
			t.Errorf("%q: got %s, PyYAML has no such value", text, got)
		case want[i] != nil && (err != nil || string(got) != *want[i]):
			t.Errorf("%q: got %s, %v, PyYAML has %s", text, got, err, *want[i])
		}
	}
}

// No text makes the reader panic, loop, or return invalid JSON.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"a: 1", "[1, .inf]", "{<<: *a}", "&a [*a]", bomb, "!!binary x", "? [a]\n: b", "1:60", "0b_"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := Parse(text)
		if err != nil {
			return
		}
		if got, err := JSON(root); err == nil && !json.Valid(got) {
			t.Errorf("%q is not JSON", got)
		}
	})
}

// A large document without aliases is read; only aliases count as growth.
func TestLargeDocument(t *testing.T) {
	const n = 200_000
	root, err := Parse([]byte(strings.Repeat("- x\n", n)))
	if err != nil || len(root.Content) != n {
		t.Errorf("%v", err)
	}
}
