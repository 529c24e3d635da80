package pytext

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRepr(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                       "None",
		`[true, false, {}]`:          "[True, False, {}]",
		`{"b": 1, "a": [1.50]}`:      "{'b': 1, 'a': [1.5]}",
		`"it's"`:                     `"it's"`,
		`"it's \"so\""`:              `'it\'s "so"'`,
		`"\u0001\u00a0\ud83d\ude00"`: `'\x01\xa0😀'`,
		`0.0000001`:                  "1e-07",
		`1e16`:                       "1e+16",
		`123456789012345678901`:      "123456789012345678901",
		`1e999`:                      "inf",
		`{"a": 1, "b": 2, "a": [3]}`: "{'a': [3], 'b': 2}",
	} {
		if got, err := Repr(json.RawMessage(text)); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "{", "[1", `{"a"}`, "1 2", "[1 2]", "[1,]"} {
		if got, err := Repr(json.RawMessage(text)); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

// oracle is a Python program that answers a list of questions. Today's date is part of a question.
const oracle = `
import datetime, json, sys
import humanize
from unittest import mock
def answer(q):
    if "json" in q:
        return repr(json.loads(q["json"]))
    if "micros" in q:
        return str(datetime.timedelta(microseconds=q["micros"]))
    zone = datetime.timezone(datetime.timedelta(seconds=q["offset"]))
    t = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(microseconds=q["t"])
    now = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(microseconds=q["now"])
    class Fixed(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now.astimezone(tz)
    t = t.astimezone(zone)
    with mock.patch("datetime.datetime", Fixed):
        natural = humanize.naturaldate(Fixed(t.year, t.month, t.day, t.hour, tzinfo=zone))
    return t.isoformat() + " " + natural
json.dump([answer(q) for q in json.load(sys.stdin)], sys.stdout)
`

// ask runs oracle with questions.
func ask(t *testing.T, questions []map[string]any) []string {
	t.Helper()
	stdin, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	python := exec.Command(testenv.Python(t), "-c", oracle)
	python.Stdin = bytes.NewReader(stdin)
	out, err := python.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// drawnJSON draws JSON texts, up to some lists and objects deep.
func drawnJSON(texts *rapid.Generator[string], depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := func() string {
			s, _ := json.Marshal(texts.Draw(t, "text")) // never fails
			return string(s)
		}
		switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
		case kind == 0:
			return text()
		case kind == 1:
			f := rapid.Float64().Draw(t, "float")
			if math.IsNaN(f) || math.IsInf(f, 0) {
				f = 0
			}
			return strconv.FormatFloat(f, "eg"[rapid.IntRange(0, 1).Draw(t, "format")], -1, 64)
		case kind == 2:
			return rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?`).Draw(t, "number")
		case kind == 3 || depth == 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}"}).Draw(t, "constant")
		case kind < 6:
			return "[" + strings.Join(rapid.SliceOfN(drawnJSON(texts, depth-1), 0, 4).Draw(t, "list"), ", ") + "]"
		default:
			var entries []string
			for _, value := range rapid.SliceOfN(drawnJSON(texts, depth-1), 0, 4).Draw(t, "values") {
				key := text()
				if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
					key = `"a"`
				}
				entries = append(entries, key+": "+value)
			}
			return "{" + strings.Join(entries, ", ") + "}"
		}
	})
}

// All texts equal Python's.
func TestAgreesWithPython(t *testing.T) {
	t.Parallel()
	var (
		questions []map[string]any
		got       []string
	)
	first := int(seed.Of(t))
	texts := rapid.StringMatching(`(['"\\]|[ -~\n\t'"\\\x00-\x20\x7f-\xff\x{100}-\x{24f}\x{2000}-\x{2030}\x{4e00}-\x{4e20}\x{1f600}-\x{1f610}]){0,8}`)
	documents := drawnJSON(texts, 4)
	for i := range 2000 {
		text := documents.Example(first + i)
		repr, err := Repr(json.RawMessage(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		questions, got = append(questions, map[string]any{"json": text}), append(got, repr)
	}
	micros := rapid.Int64Range(-200*365*86400e6, 200*365*86400e6)
	near := rapid.Int64Range(-400*86400e6, 400*86400e6)
	for i := range 1000 {
		d := micros.Example(first + i)
		if i%3 == 0 {
			d -= d % 1e6
		}
		questions, got = append(questions, map[string]any{"micros": d}), append(got, Timedelta(time.Duration(d)*time.Microsecond))

		offset := rapid.IntRange(-14*4, 14*4).Example(first+i) * 900
		at, now := 2e15+near.Example(first+i), 2e15+near.Example(first+i+1)
		if i%3 == 0 {
			at = now + rapid.Int64Range(-2*86400e6, 2*86400e6).Example(first+i)
		}
		when := time.UnixMicro(int64(at)).In(time.FixedZone("", offset))
		questions = append(questions, map[string]any{"t": int64(at), "now": int64(now), "offset": offset})
		got = append(got, ISOFormat(when)+" "+NaturalDate(when, time.UnixMicro(int64(now))))
	}
	for i, want := range ask(t, questions) {
		if got[i] != want {
			t.Errorf("%v:\n got %s\nwant %s", questions[i], got[i], want)
		}
	}
}
