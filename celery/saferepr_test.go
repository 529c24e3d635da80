package celery_test

import (
	"strings"
	"testing"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/seed"
)

// Arguments are shown and encoded exactly as in Python, at every length near those at which texts are shortened.
func TestRepresentationsEqualCelerys(t *testing.T) {
	t.Parallel()
	python := startPeer(t, "memory://")
	g := generator{seed.Rand(t)}
	var texts []string
	for range 2000 {
		texts = append(texts, g.value(6))
	}
	for n := 1000; n < 1040; n++ {
		texts = append(texts,
			`"`+strings.Repeat("x", n)+`"`,
			`"`+strings.Repeat("x ", n/2)+`"`,
			`["`+strings.Repeat("é", n)+`"]`,
			`["`+strings.Repeat("'", n)+`", 1]`,
			`[["`+strings.Repeat("😀", n)+`", 1], {"a": 2}]`,
			`{"`+strings.Repeat("k", n)+`": 1, "b": [2]}`,
			`{"k": {"l": "`+strings.Repeat("x", n-20)+`", "m": 1}, "n": [[[]]]}`,
			`[`+strings.Repeat("1,", n/3)+`[[[[]]]]]`,
			`[[`+strings.Repeat("[],", n/4)+`[1,{}],2],"x"]`,
			`[`+strings.Repeat("7", n)+`, 2]`,
			`[`+strings.Repeat("null, ", n/6)+`{}, [], {"a": []}]`,
		)
	}
	texts = append(texts, `[`+strings.Repeat("7", 4300)+`]`, strings.Repeat("[", 200)+strings.Repeat("]", 200))
	for _, text := range texts {
		var want struct{ Repr, JSON string }
		if e := python.ask(map[string]any{"operation": "represent", "text": text}, &want); e != "" {
			t.Fatalf("%s: %s", text, e)
		}
		repr, body, err := celery.Represent([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if repr != want.Repr {
			t.Fatalf("%s is shown\nas %s\nnot %s", text, repr, want.Repr)
		}
		if body != want.JSON {
			t.Fatalf("%s is encoded\nas %s\nnot %s", text, body, want.JSON)
		}
	}
}

// The encoder refuses arguments that Python can't read or a worker can't receive.
func TestImpossibleArguments(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, ` `, `[`, `[1,]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `01`, `1.`, `.5`, `1e`, `+1`, `--1`, `"`, `"\`, `"\x"`, `"\u12"`,
		`nul`, `tru`, `Nan`, `-Inf`, "\"\n\"", `[] []`, "\"\xff\"", `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`,
		strings.Repeat("7", 4301), strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
	} {
		if _, _, err := celery.Represent([]byte(text)); err == nil {
			t.Errorf("%.50q is taken", text)
		}
	}
}
