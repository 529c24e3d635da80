package origins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// peerGrab is the Python scheduler's backend, which answers grab_next_visits.
type peerGrab struct{ *testenv.Script }

func startPeerGrab(t testing.TB, dsn string) *peerGrab {
	t.Helper()
	return &peerGrab{testenv.StartScript(t, nil, "testdata/grab_next_visits.py", dsn)}
}

type picked struct {
	lister uuid.UUID
	url    string
}

func (p *peerGrab) grab(t testing.TB, f model.VisitFilter, now time.Time, count int, dryRun bool) []picked {
	t.Helper()
	call := map[string]any{
		"visit_type": f.VisitType, "count": count, "policy": f.Policy, "enabled": !f.Disabled,
		"timestamp": now.Format(time.RFC3339Nano), "dry_run": dryRun,
		"absolute_cooldown":  f.Cooldowns.Absolute.Seconds(),
		"scheduled_cooldown": f.Cooldowns.Scheduled.Seconds(),
		"failed_cooldown":    f.Cooldowns.Failed.Seconds(),
		"not_found_cooldown": f.Cooldowns.NotFound.Seconds(),
	}
	if f.ListerID.Valid {
		call["lister_uuid"] = f.ListerID.UUID.String()
	}
	if f.ListerName != "" {
		call["lister_name"] = f.ListerName
	}
	if f.ListerInstanceName != "" {
		call["lister_instance_name"] = f.ListerInstanceName
	}
	var rows [][2]string
	p.Ask(t, call, &rows)
	origins := make([]picked, len(rows))
	for i, row := range rows {
		origins[i] = picked{uuid.MustParse(row[0]), row[1]}
	}
	return origins
}

// grabWorld is a database with origins in every state that policies and cooldowns distinguish. Most times
// are exactly a cooldown from now, or a microsecond off.
type grabWorld struct {
	dsn     string
	store   *db.Store
	now     time.Time
	listers []model.Lister
}

// nightOfDaylightSaving is when clocks in Europe go forward.
var nightOfDaylightSaving = time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)

// newGrabWorld returns a world, and the Python scheduler on its database.
func newGrabWorld(t *testing.T, now time.Time) (*grabWorld, *peerGrab) {
	t.Helper()
	w := newOwnWorld(t, now)
	return w, startPeerGrab(t, w.dsn)
}

// newOwnWorld returns a world without the Python scheduler.
func newOwnWorld(t *testing.T, now time.Time) *grabWorld {
	t.Helper()
	dsn := testenv.PythonDatabase(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	w := &grabWorld{dsn: dsn, store: testenv.OpenLocal(t, dsn+"?timezone=Europe/Paris"), now: now}
	r := seed.Rand(t)
	for i, instance := range []string{"", "one", "two"} {
		l := model.Lister{ID: uuid.New(), Name: []string{"github", "gitlab"}[i%2], InstanceName: instance}
		if i > 0 {
			finished := w.now.Add(-w.interval(r))
			l.LastListingFinishedAt = &finished
		}
		w.exec(t, `insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at)
			values ($1, $2, $3, '{}', now(), $4)`, l.ID, l.Name, l.InstanceName, l.LastListingFinishedAt)
		w.listers = append(w.listers, l)
	}
	for i := range 600 {
		url := fmt.Sprintf("https://example.org/%d", i)
		visitType := []string{"git", "git", "hg"}[r.IntN(3)]
		for _, l := range w.listers {
			if r.IntN(2) == 0 {
				w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
					values ($1, $2, $3, '{}', $4, $5, $5, $6)`,
					l.ID, url, visitType, r.IntN(5) > 0, w.now.Add(-time.Duration(i)*time.Minute), w.sometimes(r))
			}
		}
		if r.IntN(4) > 0 {
			var status *string
			if n := r.IntN(4); n > 0 {
				status = &[]string{"successful", "failed", "not_found"}[n-1]
			}
			var snapshot []byte
			var position *int64
			if r.IntN(2) == 0 {
				snapshot = []byte("01234567890123456789")
			}
			if r.IntN(2) == 0 {
				p := int64(r.IntN(20))
				position = &p
			}
			w.exec(t, `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled, last_snapshot, next_visit_queue_position)
				values ($1, $2, $3, $4, $5, $6, $7, $8)`,
				url, visitType, w.sometimes(r), w.sometimes(r), status, w.sometimes(r), snapshot, position)
		}
	}
	return w
}

func (w *grabWorld) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	testenv.Exec(t, w.store.Pool(), statement, args...)
}

// interval returns a cooldown, a microsecond more or less, or any duration.
func (w *grabWorld) interval(r *rand.Rand) time.Duration {
	c := model.DefaultCooldowns
	edges := []time.Duration{c.Absolute, c.Scheduled, c.Failed, c.NotFound, 0}
	if r.IntN(3) == 0 {
		return time.Duration(r.Int64N(int64(40*24*time.Hour)) / 1000 * 1000)
	}
	return edges[r.IntN(len(edges))] + time.Duration(r.IntN(3)-1)*time.Microsecond
}

func (w *grabWorld) sometimes(r *rand.Rand) *time.Time {
	if r.IntN(4) == 0 {
		return nil
	}
	at := w.now.Add(-w.interval(r))
	return &at
}

func (w *grabWorld) filter(r *rand.Rand, policy model.VisitPolicy) model.VisitFilter {
	f := model.VisitFilter{
		VisitType: []string{"git", "hg"}[r.IntN(2)], Policy: policy, Disabled: r.IntN(4) == 0,
		Cooldowns: model.DefaultCooldowns,
	}
	if r.IntN(2) == 0 { // each cooldown: on, off, shorter, longer, or arbitrary
		for _, c := range []*time.Duration{&f.Cooldowns.Absolute, &f.Cooldowns.Scheduled, &f.Cooldowns.Failed, &f.Cooldowns.NotFound} {
			*c = []time.Duration{0, *c, *c / 2, 2 * *c, 90 * time.Second, 1500 * time.Millisecond}[r.IntN(6)]
		}
	}
	lister := w.listers[r.IntN(len(w.listers))]
	switch n := r.IntN(4); {
	case n == 0:
		f.ListerID = uuid.NullUUID{UUID: lister.ID, Valid: true}
	case n == 1 && lister.InstanceName != "" || policy == model.FirstVisitsAfterListing:
		if lister.InstanceName == "" { // the Python scheduler treats "" as no filter, and fails here
			f.ListerID = uuid.NullUUID{UUID: lister.ID, Valid: true}
			break
		}
		f.ListerName, f.ListerInstanceName = lister.Name, lister.InstanceName
	case n == 2:
		f.ListerName = lister.Name
	}
	return f
}

// plain returns a filter that candidates support.
func (w *grabWorld) plain(r *rand.Rand, policy model.VisitPolicy) model.VisitFilter {
	return model.VisitFilter{
		VisitType: []string{"git", "hg"}[r.IntN(2)], Policy: policy, Cooldowns: model.DefaultCooldowns,
	}
}

func (w *grabWorld) grab(t *testing.T, f model.VisitFilter, count int, dryRun bool) []picked {
	t.Helper()
	origins, err := w.tryGrab(t.Context(), f, count, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	return origins
}

// tryGrab is grab for goroutines, which must not end the test.
func (w *grabWorld) tryGrab(ctx context.Context, f model.VisitFilter, count int, dryRun bool) (origins []picked, err error) {
	err = w.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		got, err := tx.GrabNextVisits(ctx, f, w.now, count, dryRun)
		for _, o := range got {
			origins = append(origins, picked{o.ListerID, o.URL})
		}
		return err
	})
	return origins, err
}

// sortKeys replaces origins by their sort keys: the order of equal ones is undefined.
func (w *grabWorld) sortKeys(t *testing.T, f model.VisitFilter, origins []picked) []string {
	t.Helper()
	key := map[model.VisitPolicy]string{
		model.OldestScheduledFirst:          "ovs.last_scheduled",
		model.StopAfterSuccess:              "(lo.last_update, lo.first_seen)",
		model.NeverVisitedOldestUpdateFirst: "lo.last_update",
		model.AlreadyVisitedOrderByLag:      "lo.last_update - ovs.last_successful",
		model.OriginsWithoutLastUpdate:      "(ovs.next_visit_queue_position, lo.first_seen)",
		model.OthersByVisitTarget:           "(ovs.next_visit_queue_position, lo.first_seen)",
		model.FirstVisitsAfterListing:       "ovs.last_scheduled",
		model.Freshness:                     "(scheduler_go.moment_of(lo.visit_type, lo.url, lo.lister_id, lo.first_seen, lo.last_update, ovs.last_snapshot is not null, ovs.last_successful), lo.first_seen)",
	}[f.Policy]
	rows, err := w.store.Pool().Query(t.Context(), `select lo.lister_id, lo.url, coalesce((`+key+`)::text, '')
		from listed_origins lo left join origin_visit_stats ovs using (url, visit_type) where visit_type = $1`, f.VisitType)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[picked]string)
	var o picked
	var k string
	if _, err := pgx.ForEachRow(rows, []any{&o.lister, &o.url, &k}, func() error { keys[o] = k; return nil }); err != nil {
		t.Fatal(err)
	}
	ordered := make([]string, len(origins))
	for i, o := range origins {
		ordered[i] = keys[o]
	}
	return ordered
}

var policies = []model.VisitPolicy{
	model.OldestScheduledFirst, model.StopAfterSuccess, model.NeverVisitedOldestUpdateFirst,
	model.AlreadyVisitedOrderByLag, model.OriginsWithoutLastUpdate, model.FirstVisitsAfterListing,
}

// On the same data, every policy picks the same origins in the same order as the Python scheduler, for any
// filters, cooldowns and number of slots.
func TestGrabPicksWhatThePeerPicks(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, nightOfDaylightSaving)
	r := seed.Rand(t)
	for _, policy := range policies {
		for range 40 {
			f := w.filter(r, policy)
			count := []int{0, 1, 7, 50, 10000}[r.IntN(5)]
			theirs := w.sortKeys(t, f, peer.grab(t, f, w.now, count, true))
			ours := w.sortKeys(t, f, w.grab(t, f, count, true))
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Fatalf("%+v, count %d (-peer +ours):\n%s", f, count, diff)
			}
		}
	}
}

// A real grab leaves the database as the Python scheduler's grab does.
func TestGrabMarksWhatThePeerMarks(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, nightOfDaylightSaving)
	w.exec(t, "insert into visit_scheduler_queue_position values ('hg', 7)")
	w.exec(t, "create table saved_stats as table origin_visit_stats")
	w.exec(t, "create table saved_position as table visit_scheduler_queue_position")
	restore := func() {
		w.exec(t, "delete from origin_visit_stats")
		w.exec(t, "delete from visit_scheduler_queue_position")
		w.exec(t, "insert into origin_visit_stats table saved_stats")
		w.exec(t, "insert into visit_scheduler_queue_position table saved_position")
	}
	r := seed.Rand(t)
	for _, policy := range policies {
		for i := range 6 {
			f := w.filter(r, policy)
			if i < 3 && policy != model.FirstVisitsAfterListing {
				f = w.plain(r, policy)
			}
			peerPicked := len(peer.grab(t, f, w.now, 10000, false))
			theirs := w.state(t)
			restore()
			oursPicked := len(w.grab(t, f, 10000, false))
			ours := w.state(t)
			restore()
			if diff := cmp.Diff(theirs, ours); diff != "" || peerPicked != oursPicked {
				t.Fatalf("%+v: picked %d, the Python scheduler %d (-peer +ours):\n%s", f, oursPicked, peerPicked, diff)
			}
		}
	}
}

func (w *grabWorld) state(t *testing.T) []string {
	t.Helper()
	state := testenv.Column[string](t, w.store.Pool(), `select s::text from origin_visit_stats s
		union all select p::text from visit_scheduler_queue_position p`)
	slices.Sort(state)
	return state
}

// Concurrent grabs, each in its own transaction, never return the same origin, from candidates or from the
// tables.
func TestGrabsAtOnceAreDisjoint(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, nightOfDaylightSaving)
	f := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}
	ofLister := f
	ofLister.ListerID = uuid.NullUUID{UUID: w.listers[0].ID, Valid: true}
	seen := make(map[picked]bool)
	for _, f := range []model.VisitFilter{ofLister, f} {
		const grabbers = 8
		results := make(chan []picked, grabbers)
		for range grabbers {
			go func() {
				origins, err := w.tryGrab(t.Context(), f, 10, false)
				if err != nil {
					t.Error(err)
				}
				results <- origins
			}()
		}
		before := len(seen)
		for range grabbers {
			for _, o := range <-results {
				if seen[o] {
					t.Errorf("%v was grabbed twice", o)
				}
				seen[o] = true
			}
		}
		if len(seen) == before {
			t.Error("nothing was grabbed")
		}
	}
}
