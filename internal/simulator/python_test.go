package simulator

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
)

// runPython runs testdata/simulate.py with stdin as JSON and decodes its output into answer.
func runPython(t testing.TB, stdin, answer any, args ...string) {
	t.Helper()
	question, err := json.Marshal(stdin)
	if err != nil {
		t.Fatal(err)
	}
	python := exec.CommandContext(t.Context(), testenv.Python(t), append([]string{filepath.Join("testdata", "simulate.py")}, args...)...)
	var out, said bytes.Buffer
	python.Stdin, python.Stdout, python.Stderr = bytes.NewReader(question), &out, &said
	if err := python.Run(); err != nil {
		t.Fatalf("simulate.py: %v\n%s", err, said.Bytes())
	}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatalf("simulate.py: %v\n%s", err, out.Bytes())
	}
}

// Origins change, and visits take and find the same, as in the Python scheduler's model.
func TestOriginsAreThePythonSchedulers(t *testing.T) {
	t.Parallel()
	type question struct {
		url string
		at  float64 // seconds since 1970
	}
	random := seed.Rand(t)
	var questions []question
	var asked [][2]any
	for i := range 2000 {
		q := question{originURL(1 + i*497), math.Floor(1.7e9 + 3e8*random.Float64())}
		questions = append(questions, q)
		asked = append(asked, [2]any{q.url, q.at})
	}
	var answers []struct {
		Interval float64
		Updated  int64    // microseconds since the epoch of origins
		Loads    [][3]any // run time, status, snapshot
	}
	runPython(t, asked, &answers, "model")
	full, partial := 0, 0
	for i, q := range questions {
		want, interval := answers[i], CommitInterval(q.url)
		if math.Abs(interval/want.Interval-1) > 1e-12 {
			t.Fatalf("%s: a commit each %v s, want %v", q.url, interval, want.Interval)
		}
		// Intervals that differ by a rounding have different numbers of commits.
		interval = want.Interval
		now := time.Unix(int64(q.at), 0).UTC()
		if got := lastUpdate(interval, now).Sub(epoch).Microseconds(); max(got-want.Updated, want.Updated-got) > 1 {
			t.Errorf("%s at %s: last update %d, want %d", q.url, now, got, want.Updated)
		}
		key := model.OriginKey{URL: q.url, VisitType: listedVisitType}
		loaders := loaders{}
		loaders[key] = &originState{interval: interval}
		for n, load := range want.Loads {
			got := loaders.visit(key, now.Add(time.Duration(n)*13*time.Hour))
			if got.full {
				full++
			} else {
				partial++
			}
			if got.runTime != load[0] || got.full != (load[1] == "full") || hex.EncodeToString(got.snapshot) != load[2] {
				t.Errorf("%s at %s: visit %d is %+v, want %v", q.url, now, n, got, load)
			}
		}
	}
	if full == 0 || partial == 0 {
		t.Errorf("%d full visits and %d partial ones", full, partial)
	}
}

// totals are the results of a simulation of the Python scheduler.
type totals struct {
	Visits, Eventful, Uneventful int
	VeryLong                     int      `json:"very_long"`
	Series                       [][2]int // known and enabled origins
	RunSeconds                   float64  `json:"run_seconds"`
	FillSeconds                  float64  `json:"fill_seconds"`
}

// setting has the options of a comparison.
type setting struct {
	kind    Kind
	policy  model.VisitPolicy
	origins int
	hours   float64
	workers int
	// after is a statement to run once the origins exist; "" for none.
	after string
}

func (s setting) runtime() time.Duration { return time.Duration(s.hours * float64(time.Hour)) }

// python runs the Python scheduler's simulation on its own database.
func (s setting) python(t testing.TB, start time.Time) totals {
	t.Helper()
	var got totals
	runPython(t, s.after, &got, "run", testenv.PythonDatabase(t), string(s.kind), string(s.policy),
		strconv.Itoa(s.origins), strconv.FormatFloat(s.runtime().Seconds(), 'f', -1, 64), strconv.Itoa(s.workers),
		strconv.FormatInt(start.Unix(), 10))
	return got
}

// openStore opens a database.
func openStore(t testing.TB, dsn string) *db.Store {
	t.Helper()
	return testenv.OpenLocal(t, dsn)
}

// options returns the options of our simulation.
func (s setting) options(t testing.TB, store *db.Store, start time.Time) Options {
	runtime := s.runtime()
	return Options{
		Store: store, Log: slog.New(slog.DiscardHandler), Kind: s.kind, Policies: onePolicy(s.policy),
		Workers: s.workers, Listers: []ListerName{DefaultLister}, Listed: s.origins, Start: start, Runtime: &runtime,
	}
}

func onePolicy(p model.VisitPolicy) map[string][]model.WeightedPolicy {
	return map[string][]model.WeightedPolicy{"default": {{Weight: 1, Filter: model.VisitFilter{
		Policy: p, Cooldowns: model.DefaultCooldowns,
	}}}}
}

// ours runs our simulation on its own database.
func (s setting) ours(t testing.TB, start time.Time) *Report {
	t.Helper()
	report, err := Run(t.Context(), s.options(t, s.fill(t, start), start))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// scheduledOnce makes the order of the policy oldest_scheduled_first unique. Each origin was scheduled once, longer
// ago than any cooldown, at a time of its own.
const scheduledOnce = `insert into origin_visit_stats (url, visit_type, last_scheduled)
	select url, visit_type, now() - interval '60 days' - interval '1 minute' * row_number() over (order by md5(url))
	from listed_origins`

// Our simulation and the Python scheduler's, from the same moment and each on its own database, have the same totals.
// The orders of these policies are unique. Otherwise PostgreSQL's order of equal rows decides, and two runs of the
// Python scheduler differ, too.
func TestTotalsAreThePythonSchedulers(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]setting{
		"oldest scheduled": {OriginScheduler, model.OldestScheduledFirst, 9500, 2.5, 100, scheduledOnce},
		"oldest update":    {OriginScheduler, model.NeverVisitedOldestUpdateFirst, 3000, 1, 300, ""},
		"task scheduler":   {TaskScheduler, "", 3000, 1, 300, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The start isn't in the past, as the databases date listings themselves.
			start := time.Now().Add(5 * time.Minute).Truncate(time.Second)
			want, got := setting.python(t, start), setting.ours(t, start)
			for _, figure := range []struct {
				name      string
				got, want int
			}{
				{"visits", got.Visits, want.Visits},
				{"eventful visits", len(got.Eventful), want.Eventful},
				{"uneventful visits", got.Uneventful, want.Uneventful},
				{"very long visits", got.VeryLong(), want.VeryLong},
			} {
				if figure.got != figure.want {
					t.Errorf("%d %s, the Python scheduler: %d", figure.got, figure.name, figure.want)
				}
			}
			if want.Visits == 0 {
				t.Error("nothing was visited")
			}
			if len(got.Series) != len(want.Series) {
				t.Fatalf("measured %d times, the Python scheduler: %d", len(got.Series), len(want.Series))
			}
			for i, m := range got.Series {
				if m.Known != want.Series[i][0] || m.Enabled != want.Series[i][1] {
					t.Errorf("measurement %d: %d origins, %d enabled, the Python scheduler: %v", i, m.Known, m.Enabled, want.Series[i])
				}
			}
		})
	}
}
