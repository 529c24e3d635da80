package pgjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"swh-scheduler/internal/pgjson"
	"swh-scheduler/internal/testenv"
)

// PostgreSQL stores every text without a fault. The error of a fault says what is wrong and where.
func TestCheck(t *testing.T) {
	t.Parallel()
	pool := testenv.Connect(t, testenv.Database(t))
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		`{"a": [1, "x", {"b": null}], "é": true, "f": false}`:  "",
		`"\ud83d\ude00 \\u0000 \\ud800"`:                       "",
		`[1e4299, 1e-4300, -0.5e3, 0, 1180591620717411303424]`: "",
		deep(500):                       "",
		` { } `:                         "",
		`{"a": {"b": ["x", "\u0000"]}}`: "PostgreSQL has no texts with a NUL (a.b[1])",
		`{"a\u0000": 1}`:                `PostgreSQL has no texts with a NUL ("a\x00")`,
		`["\ud800"]`:                    "the text holds half a surrogate pair, which has no UTF-8 form ([0])",
		`"\udc00"`:                      "the text holds half a surrogate pair, which has no UTF-8 form",
		`"\ud800\u0041"`:                "the text holds half a surrogate pair, which has no UTF-8 form",
		`"\ud800x"`:                     "the text holds half a surrogate pair, which has no UTF-8 form",
		`{"k": 1e400000}`:               "the number has more than 4300 digits (k)",
		`1e4300`:                        "the number has more than 4300 digits",
		`1e-99999999999999999999`:       "the number has more than 4300 digits",
		strings.Repeat("9", 4301):       "the number has more than 4300 digits",
		`{"a": 1, "\u0061": 2}`:         "the key appears twice (a)",
		"\"\xff\"":                      "the text is not UTF-8",
		deep(501):                       "lists and mappings are nested more than 500 deep ([0][0][0][0][0][0][0][0]…)",
	} {
		if !json.Valid([]byte(text)) {
			t.Fatalf("%.100s is no JSON", text)
		}
		got := ""
		if fault := pgjson.CheckUnique([]byte(text)); fault != nil {
			got = fault.Error()
		}
		if got != want {
			t.Errorf("%.100s: %q, want %q", text, got, want)
		}
		if fault := pgjson.Check([]byte(text)); (fault == nil) != (want == "" || strings.Contains(want, "twice")) {
			t.Errorf("%.100s: Check returns %v", text, fault)
		}
		if fault := pgjson.CheckPairs([]byte(text)); (fault != nil) != strings.Contains(want, "surrogate") {
			t.Errorf("%.100s: CheckPairs returns %v", text, fault)
		}
		if want == "" {
			testenv.Exec(t, pool, "select $1::text::jsonb", text)
		}
	}
}

// Check doesn't crash for any valid JSON.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a": [1.5e-3, "\ud83d\ude00", null, true, false, {}]}`))
	f.Add([]byte(`"\ud800`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if json.Valid(text) {
			_ = pgjson.CheckUnique(text)
			_ = pgjson.CheckPairs(text)
		}
	})
}
