package listener

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv/seed"
)

func ptr[T any](v T) *T { return &v }

// Each kind of event has the meaning of the Python scheduler's rules. Events that end the Python scheduler are
// covered too.
func TestInterpret(t *testing.T) {
	t.Parallel()
	received := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	end := func(status model.RunStatus) settle.Outcome {
		return settle.Outcome{End: &settle.End{Status: status}}
	}
	fail := func(message string) settle.Outcome {
		return settle.Outcome{End: &settle.End{Status: model.RunFailed, Error: &message}}
	}
	timeOut := func(message *string) settle.Outcome {
		return settle.Outcome{End: &settle.End{Status: model.RunFailed, Error: message, TimedOut: true}}
	}
	final := func(why settle.Final, message string, unstarted bool) settle.Outcome {
		o := settle.Outcome{End: &settle.End{Status: model.RunFailed, Final: why, Unstarted: unstarted}}
		if message != "" {
			o.End.Error = &message
		}
		return o
	}
	result := func(json string) string { return `{"type": "task-result", "uuid": "u", "result": ` + json + `}` }
	start := func(worker *string, at float64) settle.Outcome {
		return settle.Outcome{Start: &settle.Start{Worker: worker, EventTime: at}}
	}
	nothing := settle.Outcome{}
	for _, c := range []struct {
		event    string
		want     settle.Outcome
		verdict  verdict
		problems []Problem
	}{
		// Starts.
		{`{"type": "task-started", "uuid": "u", "hostname": "w@h", "timestamp": 1700000000.5}`, start(ptr("w@h"), 1700000000.5), accepted, nil},
		{`{"type": "task-started", "uuid": "u"}`, start(nil, 0), accepted, nil},
		{`{"type": "task-started", "uuid": "u", "hostname": null}`, start(nil, 0), accepted, nil},
		{`{"type": "task-started", "uuid": "u", "hostname": ["w"]}`, start(nil, 0), accepted, []Problem{BadHostname}},
		{`{"type": "task-started", "uuid": "u", "hostname": "w\u0000"}`, start(ptr("w"), 0), accepted, nil},
		{`{"type": "task-started", "uuid": "u", "timestamp": -1}`, start(nil, 0), accepted, []Problem{BadTimestamp}},
		{`{"type": "task-started", "uuid": "u", "timestamp": 1777638600}`, start(nil, 1777638600), accepted, nil}, // half an hour after received
		{`{"type": "task-started", "uuid": "u", "timestamp": 1777644000}`, start(nil, 0), accepted, []Problem{BadTimestamp}},
		{`{"type": "task-started", "uuid": "u", "timestamp": 4e9}`, start(nil, 0), accepted, []Problem{BadTimestamp}},
		{`{"type": "task-started", "uuid": "u", "timestamp": NaN}`, start(nil, 0), accepted, []Problem{BadTimestamp}},
		{`{"type": "task-started", "uuid": "u", "timestamp": "now"}`, start(nil, 0), accepted, []Problem{BadTimestamp}},
		{`{"type": "task-started", "uuid": "u", "timestamp": 1e999}`, start(nil, 0), accepted, []Problem{BadTimestamp}},

		// Results.
		{result(`{"status": "success", "eventful": true}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": "no"}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": 0}`), end("uneventful"), accepted, nil},
		{result(`{"status": "success"}`), end("uneventful"), accepted, nil},
		{result(`{"status": "eventful"}`), end("eventful"), accepted, nil},
		{result(`{"status": "uneventful", "eventful": true}`), end("uneventful"), accepted, nil},
		{result(`{"status": "permfailed", "error": "x"}`), end("permfailed"), accepted, nil},
		{result(`{"status": "lost"}`), end("lost"), accepted, nil},
		{result(`{"status": "failed"}`), end("failed"), accepted, nil},
		{result(`{"status": "failed", "error": "\u0000no\u0000"}`), fail("no"), accepted, nil},
		{result(`{"status": "failed", "error": "n\u0000o"}`), fail("no"), accepted, nil},
		{result(`{"status": "failed", "error": ""}`), fail(""), accepted, nil},
		{result(`{"status": "failed", "error": 5}`), end("failed"), accepted, []Problem{BadError}},
		{result(`{"status": "failed", "error": null}`), end("failed"), accepted, []Problem{BadError}},
		{result(`{"status": "eventful", "error": 5}`), end("eventful"), accepted, nil},
		{result(`{"status": null}`), end("eventful"), accepted, nil},
		{result(`{"x": NaN}`), end("eventful"), accepted, nil},
		{result(`NaN`), end("eventful"), accepted, nil},
		{result(`Infinity`), end("eventful"), accepted, nil},
		{result(`-Infinity`), end("eventful"), accepted, nil},
		{result(`[NaN]`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": NaN}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": Infinity}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": -Infinity}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": {"x": NaN}}`), end("eventful"), accepted, nil},
		{result(`{"status": "success", "eventful": "NaN"}`), end("eventful"), accepted, nil},
		{result(`{"status": "failed", "error": NaN}`), end("failed"), accepted, []Problem{BadError}},
		{result(`{"status": NaN}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": "uneventful", "x": [NaN, -Infinity]}`), end("uneventful"), accepted, nil},
		{result(`{}`), end("uneventful"), accepted, nil},
		{result(`[{"status": "failed"}]`), end("eventful"), accepted, nil},
		{result(`null`), end("uneventful"), accepted, nil},
		{result(`"failed"`), end("eventful"), accepted, nil},
		{result(`{"status": "partial"}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": "started"}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": "scheduled"}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": ""}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": false}`), nothing, rejected, []Problem{BadStatus}},
		{result(`{"status": ["failed"]}`), nothing, rejected, []Problem{BadStatus}},
		{`{"type": "task-result", "uuid": "u"}`, nothing, rejected, []Problem{BadResult}},

		// Failures.
		{`{"type": "task-failed", "uuid": "u", "traceback": "Traceback\n  x\nValueError: no\n"}`, fail("ValueError: no"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": "a\nb\u0000 \n\u001f\u2028\u00a0"}`, fail("b"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": "a\nb\rc"}`, fail("b\rc"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": "  \n "}`, fail(""), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "ValueError()"}`, end("failed"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": null}`, end("failed"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": 7}`, end("failed"), accepted, []Problem{BadTraceback}},

		// Time limits, and what only mentions one.
		{`{"type": "task-failed", "uuid": "u", "exception": "SoftTimeLimitExceeded()"}`, timeOut(nil), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "SoftTimeLimitExceeded(300,)", "traceback": null}`, timeOut(nil), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "TimeLimitExceeded(300)", "traceback": "x\nnote"}`, timeOut(ptr("note")), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "ExceptionWithTraceback()", "traceback": "x\nbilliard.exceptions.TimeLimitExceeded: TimeLimitExceeded(5,)\n"}`,
			timeOut(ptr("billiard.exceptions.TimeLimitExceeded: TimeLimitExceeded(5,)")), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": "x\nbilliard.exceptions.SoftTimeLimitExceeded"}`,
			timeOut(ptr("billiard.exceptions.SoftTimeLimitExceeded")), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": 5, "traceback": "TimeLimitExceeded: 5"}`, timeOut(ptr("TimeLimitExceeded: 5")), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "ExceptionWithTraceback()"}`, end("failed"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "ValueError('SoftTimeLimitExceeded()')", "traceback": "ValueError: a\nSoftTimeLimitExceeded()"}`,
			fail("SoftTimeLimitExceeded()"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "traceback": "x\nValueError: billiard.exceptions.SoftTimeLimitExceeded: no"}`,
			fail("ValueError: billiard.exceptions.SoftTimeLimitExceeded: no"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "MyTimeLimitExceeded()"}`, end("failed"), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "TimeLimitExceededByFar()"}`, end("failed"), accepted, nil},
		{result(`{"status": "failed", "error": "SoftTimeLimitExceeded()"}`), timeOut(ptr("SoftTimeLimitExceeded()")), accepted, nil},
		{result(`{"status": "failed", "error": "celery.exceptions.SoftTimeLimitExceeded: x"}`),
			timeOut(ptr("celery.exceptions.SoftTimeLimitExceeded: x")), accepted, nil},
		{result(`{"status": "failed", "error": "TimeLimitExceeded was not raised"}`), fail("TimeLimitExceeded was not raised"), accepted, nil},
		{result(`{"status": "failed", "error": "no: SoftTimeLimitExceeded()"}`), fail("no: SoftTimeLimitExceeded()"), accepted, nil},
		{result(`{"status": "permfailed", "error": "SoftTimeLimitExceeded()"}`), end("permfailed"), accepted, nil},
		{result(`{"status": "eventful", "error": "SoftTimeLimitExceeded()"}`), end("eventful"), accepted, nil},

		// What the Python scheduler makes no use of.
		{`{"type": "task-revoked", "uuid": "u", "terminated": true, "signum": 15, "expired": false}`, final(settle.Revoked, "revoked, and its process terminated by signal 15", false), accepted, nil},
		{`{"type": "task-revoked", "uuid": "u", "terminated": true, "signum": "15", "expired": false}`, final(settle.Revoked, "revoked, and its process terminated", false), accepted, nil},
		{`{"type": "task-revoked", "uuid": "u", "terminated": false, "signum": null, "expired": false}`, final(settle.Revoked, "revoked before a worker began it", true), accepted, nil},
		{`{"type": "task-revoked", "uuid": "u", "terminated": false, "signum": null, "expired": true}`, final("", "expired before a worker began it", true), accepted, nil},
		{`{"type": "task-rejected", "uuid": "u", "requeue": false}`, final(settle.Rejected, "", false), accepted, nil},
		{`{"type": "task-failed", "uuid": "u", "exception": "reject requeue=False: 'not mine'", "traceback": "celery.exceptions.Reject: no"}`, final(settle.Rejected, "celery.exceptions.Reject: no", false), accepted, nil},
		{`{"type": "task-rejected", "uuid": "u", "requeue": true}`, nothing, ignored, nil},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": 1.5, "result": "{}"}`, settle.Outcome{Runtime: ptr(1500 * time.Millisecond)}, accepted, nil},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": null}`, nothing, ignored, nil},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": NaN}`, nothing, ignored, []Problem{BadRuntime}},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": -1}`, nothing, ignored, []Problem{BadRuntime}},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": 1e300}`, nothing, ignored, []Problem{BadRuntime}},
		{`{"type": "task-succeeded", "uuid": "u", "runtime": "long"}`, nothing, ignored, []Problem{BadRuntime}},
		{`{"type": "task-retried", "uuid": "u", "traceback": "x"}`, nothing, ignored, nil},
		{`{"type": "task-received", "uuid": "u", "name": "x"}`, nothing, ignored, nil},
		{`{"type": "task-teleported", "uuid": "u"}`, nothing, ignored, nil},
	} {
		t.Run(c.event, func(t *testing.T) {
			t.Parallel()
			var problems []Problem
			got, verdict := interpret(decodeOne(t, c.event), received, func(p Problem, _ string) { problems = append(problems, p) })
			c.want.BackendID, c.want.Received = "u", received
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if verdict != c.verdict {
				t.Errorf("verdict %d, want %d", verdict, c.verdict)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func decodeOne(t testing.TB, body string) celery.Event {
	t.Helper()
	events, err := celery.DecodeEvents([]byte(body), "application/json")
	if err != nil || len(events) != 1 {
		t.Fatalf("%s: %d events, error %v", body, len(events), err)
	}
	return events[0]
}

// JSON values are true or false as in Python.
func TestTruthy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":     false,
		`null`: false, `false`: false, `true`: true,
		`0`: false, `-0`: false, `0.0`: false, `-0.0e7`: false, `1e-400`: false,
		`1`: true, `-1`: true, `0.1`: true, `1e400`: true, `123456789012345678901234567890`: true,
		`""`: false, `" "`: true, `"0"`: true, `"false"`: true,
		`[]`: false, `[ ]`: false, `[0]`: true, `[[]]`: true,
		`{}`: false, "{\n}": false, `{"a": 0}`: true,
	} {
		if got := truthy(json.RawMessage(text)); got != want {
			t.Errorf("truthy(%s) = %t, want %t", text, got, want)
		}
	}
}

// Texts for the log or the database are cut between characters.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		n := rapid.IntRange(0, 20).Draw(t, "n")
		got := excerpt(text, n)
		if len(got) > n+len("…") || len(text) <= n && got != text {
			t.Fatalf("excerpt(%q, %d) = %q", text, n, got)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("excerpt(%q, %d) = %q, which is no UTF-8", text, n, got)
		}
	})
}
