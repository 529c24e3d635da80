package db_test

import (
	"math"
	"testing"
	"time"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

// Samples add up to means by five minutes, hour and day. A figure missing in a sample counts as zero; a
// step without a sample is unknown.
func TestFiguresOverTime(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{})
	now := store.Now().UTC().Truncate(24 * time.Hour).Add(12*time.Hour + 2*time.Minute)
	note := func(ago time.Duration, figures ...db.Figure) {
		t.Helper()
		if err := store.NoteFigures(t.Context(), now.Add(-ago), []db.FigureKind{db.QueueFigures}, figures); err != nil {
			t.Fatal(err)
		}
	}
	queue := func(name string, values ...float64) db.Figure {
		return db.Figure{Kind: db.QueueFigures, Name: name, Values: values}
	}
	note(70*time.Minute, queue("a", 10, 1, 0, 0, 2), queue("b", 0, 0, 0, 0, 0))
	note(65*time.Minute, queue("a", 20, math.NaN(), 0, 0, 2))
	note(60 * time.Minute)
	note(5*time.Minute, queue("a", 40, 1, 0, 0, 3), queue("b", 7, 0, 0, 0, 1))
	note(0, queue("a", 80, 1, 0, 0, 4))

	series, err := store.FiguresOver(t.Context(), db.QueueFigures, []db.FigureKey{{Name: "a"}}, ledger.Past{Span: "hour", Since: now.Add(-3 * time.Hour).Truncate(time.Hour), Step: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	// Two samples are before eleven, two after it (one lacks the queue), and one is after twelve.
	ready, working := series.Values(db.FigureKey{Name: "a"}, 0), series.Values(db.FigureKey{Name: "a"}, 1)
	if len(ready) != 4 || !math.IsNaN(ready[0]) || ready[1] != 15 || ready[2] != 20 || ready[3] != 80 {
		t.Errorf("ready: %v, samples %v", ready, series.Samples)
	}
	if !math.IsNaN(working[1]) || working[3] != 1 {
		t.Errorf("with workers: %v", working)
	}
	if len(series.Of) != 1 {
		t.Errorf("of others: %v", series.Of)
	}
	five, err := store.FiguresOver(t.Context(), db.QueueFigures, nil, ledger.Past{Since: now.Add(-10 * time.Minute).Truncate(5 * time.Minute), Step: 5 * time.Minute}, now)
	if err != nil {
		t.Fatal(err)
	}
	if b := five.Values(db.FigureKey{Name: "b"}, 0); len(b) != 3 || !math.IsNaN(b[0]) || b[1] != 7 || b[2] != 0 {
		t.Errorf("b: %v", b)
	}
	if consumers, err := store.Consumers(t.Context(), now); err != nil || consumers["a"] != 4 || consumers["b"] != 0 {
		t.Errorf("%v, %v", consumers, err)
	}
}

// Of thousands of queues, a sample stores those with the greatest values, and none whose name exceeds an
// index entry.
func TestFiguresAreBounded(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{})
	var all []db.Figure
	for i := range 5000 {
		all = append(all, db.Figure{Kind: db.QueueFigures, Name: string(rune('a'+i%26)) + time.Unix(int64(i), 0).UTC().Format("150405"), Values: []float64{float64(i)}})
	}
	all = append(all, db.Figure{Kind: db.QueueFigures, Name: string(make([]byte, 5000)), Values: []float64{1e6}})
	for range 2 {
		if err := store.NoteFigures(t.Context(), store.Now(), []db.FigureKind{db.QueueFigures}, all); err != nil {
			t.Fatal(err)
		}
	}
	got := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.figures union all select min(sums[1])::bigint from scheduler_go.figures where name <> '' order by 1")
	if got[0] != 3*301 || got[1] != 2*4700 {
		t.Errorf("rows and least sum: %v", got)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.figures set since = since - case span when 'five' then interval '200 minutes' when 'hour' then interval '31 days' else interval '731 days' end")
	if err := store.ForgetFigures(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.figures"); left[0] != 0 {
		t.Errorf("%d rows are left", left[0])
	}
}

// FiguresOver reads only the parts asked for. A part that comes twice in a sample counts once: several task
// types of one queue may have shares, each with the same parts.
func TestPartsOfFigures(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{})
	now := store.Now()
	part := func(name string, share float64) db.Figure {
		return db.Figure{Kind: db.ShareFigures, Name: "q", Part: name, Values: []float64{share, share}}
	}
	if err := store.NoteFigures(t.Context(), now, []db.FigureKind{db.ShareFigures}, []db.Figure{part("a", 0.25), part("b", 0.75), part("a", 0.5)}); err != nil {
		t.Fatal(err)
	}
	key := db.FigureKey{Name: "q", Part: "a"}
	series, err := store.FiguresOver(t.Context(), db.ShareFigures, []db.FigureKey{key}, ledger.Past{Since: now.Add(-time.Hour).Truncate(db.FiguresEvery), Step: db.FiguresEvery}, now)
	if err != nil {
		t.Fatal(err)
	}
	if values := series.Values(key, 0); len(series.Of) != 1 || values[len(values)-1] != 0.25 {
		t.Errorf("%v, and of others: %v", values, series.Of)
	}
}

// Forecasts use two counts of update-metrics, however late they are sampled, and the visits of samples.
func TestFlows(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{})
	flows := func() map[string]freshness.Flow {
		t.Helper()
		counts, err := store.CountsOfListers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := store.Flows(t.Context(), counts, store.Now())
		if err != nil {
			t.Fatal(err)
		}
		byType := map[string]freshness.Flow{}
		for _, f := range all {
			byType[f.VisitType] = f
		}
		return byType
	}
	if got := flows(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	testenv.Exec(t, store.Pool(), `
		insert into listers (id, name, instance_name, current_state, updated) select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'gitea', 'g' || n, '{}', now() from generate_series(1, 3) n;
		insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			select id, 'git', now() - interval '49 hours', 500, 400, 100, 50 from listers where instance_name <> 'g3';
		insert into scheduler_go.ended (minute, source, type, status, exception, bucket, part, pieces, seconds) values
			(date_trunc('minute', now()) - interval '2 minutes', 'journal', 'git', 'eventful', '', -1, 0, 9, 0), (date_trunc('minute', now()) - interval '3 minutes', 'journal', 'git', 'failed', '', -1, 0, 1, 0),
			(date_trunc('minute', now()) - interval '3 minutes', 'worker', 'load-git', 'eventful', '', 20, 0, 4, 240), (date_trunc('minute', now()) - interval '3 minutes', 'worker', 'list-git', 'eventful', '', 20, 0, 4, 240)`)
	sample := func(at time.Time) {
		t.Helper()
		if err := store.SampleOrigins(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	now := store.Now()
	sample(now.Add(-48 * time.Hour))
	sample(now) // the same counts as before
	git := flows()["git"]
	if git.Known != 1000 || git.Enabled != 800 || git.Never != 200 || git.Changed != 100 || git.Growth != nil {
		t.Errorf("counted once: %+v", git)
	}
	if v := git.Visits; v == nil || v.Over != 10*time.Minute || math.Abs(v.PerDay-10*288) > 1 || v.Ends != 8 || math.Abs(v.Took-60) > 1e-6 {
		t.Errorf("visits: %+v", v)
	}
	testenv.Exec(t, store.Pool(), `update scheduler_metrics set last_update = last_update + interval '2 days', origins_known = 600, origins_never_visited = 80, origins_with_pending_changes = 90;
		delete from scheduler_go.figures where span = 'five'`)
	sample(now)
	growth := flows()["git"].Growth
	if growth == nil || growth.Over.Round(time.Minute) != 48*time.Hour || math.Abs(growth.Known-100) > .1 || math.Abs(growth.Never+20) > .1 || math.Abs(growth.Changed-40) > .1 {
		t.Errorf("growth: %+v", growth)
	}
}

// Two samples of origins that were counted anew between them are enough for a growth rate.
func TestGrowthBetweenTwoSamples(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{})
	testenv.Exec(t, store.Pool(), `
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'g', '{}', now());
		insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			select id, 'git', now() - interval '6 minutes', 500, 400, 100, 50 from listers`)
	now := store.Now()
	counts := func(at time.Time) *freshness.Growth {
		t.Helper()
		if err := store.SampleOrigins(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		all, err := store.CountsOfListers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		flows, err := store.Flows(t.Context(), all, now)
		if err != nil || len(flows) != 1 {
			t.Fatal(flows, err)
		}
		return flows[0].Growth
	}
	if g := counts(now.Add(-5 * time.Minute)); g != nil {
		t.Errorf("counted once: %+v", g)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_metrics set last_update = last_update + interval '5 minutes', origins_never_visited = 90")
	if g := counts(now); g == nil || g.Over.Round(time.Second) != 5*time.Minute || math.Abs(g.Never+10*288) > 1 {
		t.Errorf("counted twice: %+v", g)
	}
}
