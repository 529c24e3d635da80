package recurrent

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
)

// hosterWorld is a database whose claims respect limits of hosters; its clock is the test's own.
type hosterWorld struct {
	store  *db.Store
	limits model.Hosters
	now    time.Time
	shared bool
	shares model.Shares // nil: without shares

	inFlight map[string]model.OriginKey // by task id
	claimed  map[model.OriginKey]int
	claims   map[string][]time.Time // by hoster
	listers  map[string]string      // the hoster by the URL of an origin
	moments  map[model.OriginKey]time.Time
}

// limit returns the limit of a hoster, and its group of the queue.
func (w *hosterWorld) limit(hoster string) model.HosterLimit {
	l := w.limits.Limit(hoster)
	if ceiling := w.shares.MaxInFlight[hoster]; w.shared && ceiling > 0 {
		l.MaxInFlight = min(l.MaxInFlight, ceiling)
	}
	return l
}

// hosters returns the hosters of an origin by the test's own model.
func (w *hosterWorld) hosters(url string) []string {
	return []string{w.listers[url], model.HostOf(url)}
}

// loads counts the visits in flight, and those claimed in the last minute, by hoster.
func (w *hosterWorld) loads() (inFlight, lastMinute map[string]int) {
	inFlight, lastMinute = make(map[string]int), make(map[string]int)
	for _, key := range w.inFlight {
		for _, h := range w.hosters(key.URL) {
			inFlight[h]++
		}
	}
	for h, all := range w.claims {
		for _, at := range all {
			if at.After(w.now.Add(-time.Minute)) {
				lastMinute[h]++
			}
		}
	}
	return inFlight, lastMinute
}

// claim claims up to n visits of a visit type and checks all bounds afterwards.
func (w *hosterWorld) claim(t *testing.T, visitType string, policies []model.WeightedPolicy, n int) int {
	t.Helper()
	var visits []dispatch.Visit
	var work []ledger.Work
	if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		picker := Picker{VisitType: visitType, Policies: policies}
		var picked Picked
		var err error
		if w.shared {
			picked, err = picker.PickShared(ctx, tx, dispatch.SharedQueue{Name: "q", Shares: w.shares}, w.now, n)
		} else {
			picked, err = picker.Pick(ctx, tx, w.now, n)
		}
		if err != nil {
			return err
		}
		visits = picked.Visits
		if work, err = dispatch.VisitWork(ctx, tx, "q", "q", visits, w.now); err != nil {
			return err
		}
		return tx.AddWork(ctx, work)
	}); err != nil {
		t.Fatal(err)
	}
	for i, v := range visits {
		key := model.OriginKey{URL: v.Origin.URL, VisitType: visitType}
		w.inFlight[work[i].TaskID.String()] = key
		w.claimed[key]++
		for _, h := range w.hosters(key.URL) {
			w.claims[h] = append(w.claims[h], w.now)
		}
	}
	inFlight, lastMinute := w.loads()
	for _, h := range slices.Concat(slices.Collect(maps.Keys(inFlight)), slices.Collect(maps.Keys(lastMinute))) {
		if l := w.limit(h); l.MaxInFlight > 0 && inFlight[h] > l.MaxInFlight || l.PerMinute > 0 && lastMinute[h] > l.PerMinute {
			t.Fatalf("%s has %d in flight and %d in a minute, its limit is %+v", h, inFlight[h], lastMinute[h], l)
		}
	}
	if policies[0].Filter.Policy == model.Freshness {
		w.inOrder(t, visits)
	}
	if len(visits) < n {
		w.nothingElse(t, visitType, policies)
	}
	return len(visits)
}

// isFull returns a function that reports whether a hoster of the origin is full.
func (w *hosterWorld) isFull() func(url string) bool {
	inFlight, lastMinute := w.loads()
	return func(url string) bool {
		return slices.ContainsFunc(w.hosters(url), func(h string) bool {
			l := w.limit(h)
			return l.MaxInFlight > 0 && inFlight[h] >= l.MaxInFlight || l.PerMinute > 0 && lastMinute[h] >= l.PerMinute
		})
	}
}

// inOrder checks that the moments of picked visits had come, and that only visits of full hosters were
// passed by. With shares it compares visits of the same group.
func (w *hosterWorld) inOrder(t *testing.T, visits []dispatch.Visit) {
	t.Helper()
	full := w.isFull()
	for _, v := range visits {
		picked := model.OriginKey{URL: v.Origin.URL, VisitType: v.Origin.VisitType}
		if w.moments[picked].After(w.now) {
			t.Errorf("%s was picked before its moment", picked.URL)
		}
		for key, moment := range w.moments {
			if key.VisitType == picked.VisitType && moment.Before(w.moments[picked]) && w.claimed[key] == 0 && !full(key.URL) &&
				(!w.shared || w.listers[key.URL] == w.listers[picked.URL]) {
				t.Errorf("%s was passed by for %s, whose moment is later", key.URL, picked.URL)
			}
		}
	}
}

// nothingElse checks that all due visits that were not picked have a full hoster.
func (w *hosterWorld) nothingElse(t *testing.T, visitType string, policies []model.WeightedPolicy) {
	t.Helper()
	full := w.isFull()
	for _, p := range policies {
		f := p.Filter
		f.VisitType = visitType
		var rest []model.ListedOrigin
		if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			rest, err = tx.GrabNextVisits(ctx, f, w.now, 1000, true)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, o := range rest {
			if !full(o.URL) {
				t.Errorf("%s was not claimed, although slots were free and its hosters have room", o.URL)
			}
		}
	}
}

// end ends some of the visits in flight, as the listener does.
func (w *hosterWorld) end(t *testing.T, r *rand.Rand, one int) {
	t.Helper()
	var outcomes []settle.Outcome
	for id := range w.inFlight {
		if r.IntN(one) == 0 {
			outcomes = append(outcomes,
				settle.Outcome{BackendID: id, Received: w.now, Start: &settle.Start{EventTime: model.UnixSeconds(w.now)}},
				settle.Outcome{BackendID: id, Received: w.now, End: &settle.End{Status: model.RunEventful, EventTime: model.UnixSeconds(w.now)}})
			delete(w.inFlight, id)
		}
	}
	if err := (settle.Store{Store: w.store}).ApplyOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// Claims of any visit type and lister, by policies, by shares or as first visits, keep four rules. No
// hoster has more in flight, or more claims in a minute, than its limit. Slots stay free only if all due
// visits have full hosters. Each origin is claimed once in the end. The policy freshness passes no visit by
// that it could pick.
func TestHosterLimitsHold(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared=", shared), func(t *testing.T) {
			t.Parallel()
			testHosters(t, shared)
		})
	}
}

func testHosters(t *testing.T, shared bool) {
	r := seed.Rand(t)
	dsn := testenv.Database(t)
	w := &hosterWorld{
		shared: shared, now: time.Now().UTC().Truncate(time.Microsecond), inFlight: map[string]model.OriginKey{},
		claimed: map[model.OriginKey]int{}, claims: map[string][]time.Time{}, listers: map[string]string{}, moments: map[model.OriginKey]time.Time{},
		shares: model.Shares{By: model.ShareByListerInstance, Default: 1, HalfLife: time.Hour, MaxInFlight: map[string]int{"gitea/4": 2}},
		limits: model.Hosters{Default: model.HosterLimit{MaxInFlight: 6}, LostAfter: 24 * time.Hour, Limits: map[string]model.HosterLimit{
			"gitea/1": {MaxInFlight: 3}, "gitea/2": {PerMinute: 4}, "gitea/3": {MaxInFlight: 1000}, "busy.example": {MaxInFlight: 5, PerMinute: 7},
		}},
	}
	needed := migrate.Options{Policies: map[string][]model.WeightedPolicy{"git": byFreshness}}
	if shared || r.IntN(2) == 0 {
		needed.Hosters = w.limits
	}
	testenv.Migrate(t, dsn, needed)
	w.store = testenv.Open(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: w.limits})
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, w.store.Pool(), statement)
	}
	exec(`insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'gitea', n, '{}', now(), now() - interval '1 hour' from generate_series(1, 5) n`)
	if err := w.store.ConfigureFreshness(t.Context(), map[string]time.Duration{"git": time.Hour, "hg": time.Hour}); err != nil {
		t.Fatal(err)
	}
	exec("update scheduler_go.freshness_control set complete = true")
	// Each lister has some origins at a host of its own, and some at a common host. The origins' moments
	// are their first_seen, a minute apart; a sixth of them are in the future.
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || l)::uuid, 'https://' || case when n % 4 = 0 then 'Busy.example:8443' else 'forge' || l end || '/' || l || '/' || n,
		       type, '{}', true, now() - ((l * 12 + n) * 7 % 60 - 10) * interval '1 minute', now(), case when n % 3 = 0 then null else now() - l * interval '1 day' - n * interval '1 second' end
		from generate_series(1, 5) l, generate_series(1, 12) n, unnest(array['git', 'hg']) type`)
	for more := shared || r.IntN(2) == 0; more; { // shares read groups from candidates
		kept, err := w.store.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = kept.More
	}
	origins, _, err := w.store.ListedOrigins(t.Context(), origins.ListedOriginFilter{Limit: 1000})
	if err != nil || len(origins) != 120 {
		t.Fatal(len(origins), err)
	}
	for _, o := range origins {
		w.listers[o.URL] = fmt.Sprint("gitea/", o.ListerID.String()[35:])
		w.moments[model.OriginKey{URL: o.URL, VisitType: o.VisitType}] = o.FirstSeen
	}
	policies := func() []model.WeightedPolicy {
		if r.IntN(4) == 0 && !shared {
			return []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.FirstVisitsAfterListing, ListerID: uuid.NullUUID{UUID: origins[r.IntN(120)].ListerID, Valid: true}}}}
		}
		switch r.IntN(4) {
		case 0:
			return []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}}}
		case 1:
			return evenly
		}
		return byFreshness
	}
	visitType := func() string { return []string{"git", "hg"}[r.IntN(2)] }
	for range 15 {
		switch r.IntN(4) {
		case 0:
			w.now = w.now.Add(time.Duration(r.IntN(60)) * time.Second)
		case 1:
			w.end(t, r, 2)
		default:
			w.claim(t, visitType(), policies(), 1+r.IntN(40))
		}
	}
	all := []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}}}
	for n := 1; n > 0 || len(w.inFlight) > 0; {
		w.end(t, r, 1)
		w.now = w.now.Add(time.Minute)
		n = w.claim(t, "git", all, 40) + w.claim(t, "hg", all, 40)
	}
	for _, o := range origins {
		if n := w.claimed[model.OriginKey{URL: o.URL, VisitType: o.VisitType}]; n != 1 {
			t.Errorf("%s (%s) was claimed %d times", o.URL, o.VisitType, n)
		}
	}
}

// A round that leaves out visits of full hosters is repeated soon, not after NoOriginsBackoff.
func TestRoundIsRepeatedWhileHostersAreFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := testenv.Open(t, w.dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: model.Hosters{Default: model.HosterLimit{MaxInFlight: 10}, LostAfter: time.Hour}})
	w.store.Close()
	w.store, w.slots = store, dispatch.NewSlots(store, freeQueues{}, func() {})
	w.exec(t, "update task_type set max_queue_length = null")
	w.list(t, "plain", 60, false)
	r := w.round(t, evenly)
	for i, step := range []struct {
		scheduled int
		left      bool
	}{{20, true}, {20, true}, {40, true}, {60, false}} {
		if i > 1 {
			w.exec(t, "delete from scheduler_go.work") // the end of all visits
		}
		began := time.Now()
		next, err := r.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.scheduled(t)); n != step.scheduled || r.hostersFull != step.left {
			t.Errorf("round %d: %d are scheduled, and left some: %v; want %+v", i, n, r.hostersFull, step)
		}
		if most := max(duePeriod, dueCost*time.Since(began)); step.left && (next.Next < duePeriod || next.Next > most) {
			t.Errorf("round %d: the next is in %s, want at most %s", i, next.Next, most)
		}
	}
}

// freeQueues are queues without messages.
type freeQueues struct{}

func (freeQueues) Observe(_ context.Context, now func() time.Time, queues []string, _ bool) map[string]celery.Observation {
	observed := make(map[string]celery.Observation)
	for _, queue := range queues {
		observed[queue] = celery.Observation{Asked: now()}
	}
	return observed
}

// A visit counts for the hosters of its origin until its end is known. A row of the ledger that only waits
// for a runtime doesn't count.
func TestVisitsCountForHostersWithLimits(t *testing.T) {
	t.Parallel()
	limits := model.Hosters{LostAfter: time.Hour, Limits: map[string]model.HosterLimit{"busy.example": {MaxInFlight: 5}}}
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Hosters: limits})
	store := testenv.Open(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: limits})
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', url, 'git', '{}', true, now() from unnest(array['https://busy.example/1', 'https://calm.example/1']) url`,
		`insert into scheduler_go.work (task_id, state, queue, home, since, settled, task_name, args, kwargs, hosters)
		 select gen_random_uuid(), state, 'q', 'q', now(), case state when 'settled' then now() end, 't', '[]', '{}', array['busy.example'] from unnest(array['outgoing', 'sent', 'settled']) state`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	loads, err := store.HosterLoads(t.Context(), limits, []string{"busy.example"}, time.Now())
	if err != nil || loads["busy.example"].InFlight != 2 {
		t.Errorf("%+v, %v; want two in flight", loads, err)
	}
	got := map[string][]string{}
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		picked, err := (Picker{VisitType: "git", Policies: evenly}).Pick(ctx, tx, time.Now(), 10)
		for _, v := range picked.Visits {
			got[v.Origin.URL] = v.Hosters
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := map[string][]string{"https://busy.example/1": {"busy.example"}, "https://calm.example/1": nil}; !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("hosters %v, want %v", got, want)
	}
}

// A hoster that refuses visits gets as many as its learned limit, and none while it is closed. Others get all. Visits
// count for their hosters also while no hoster has a limit.
func TestHostersThatRefuseAreSpared(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	hosters := model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff, Limits: map[string]model.HosterLimit{"kept.example": {NoBackoff: true}}}
	testenv.Migrate(t, dsn, migrate.Options{Hosters: hosters})
	store := testenv.Open(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://' || host || '/' || n, 'git', '{}', true, now()
		 from unnest(array['busy.example', 'calm.example', 'kept.example', 'shut.example']) host, generate_series(1, 10) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	refuse := func(hoster, limit, closed string) {
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.refusing_hosters values ('`+hoster+`', `+limit+`, `+closed+`, 10, 'epoch', 'epoch', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', '', 0, 'epoch', false)`)
	}
	claim := func(n int) map[string]int {
		t.Helper()
		hosts := map[string]int{}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := (Picker{VisitType: "git", Policies: evenly}).Pick(ctx, tx, time.Now(), n)
			if err != nil {
				return err
			}
			work, err := dispatch.VisitWork(ctx, tx, "q", "q", picked.Visits, time.Now())
			for _, w := range work {
				if want := []string{"gitea/forge", model.HostOf(w.Origin.URL)}; !slices.Equal(w.Hosters, want) && w.Hosters[0] != "gitea/forge" {
					t.Errorf("%s counts for %v, want %v", w.Origin.URL, w.Hosters, want)
				}
				hosts[model.HostOf(w.Origin.URL)]++
			}
			if err != nil {
				return err
			}
			return tx.AddWork(ctx, work)
		}); err != nil {
			t.Fatal(err)
		}
		return hosts
	}
	if got := claim(4); len(got) == 0 {
		t.Errorf("claimed %v, want four", got)
	}
	refuse("busy.example", "3.9", "'epoch'")
	refuse("kept.example", "1", "'epoch'")
	refuse("shut.example", "5", "now() + interval '1 hour'")
	claim(40)
	got := map[string]int{}
	for _, url := range testenv.Column[string](t, store.Pool(), "select url from scheduler_go.work") {
		got[model.HostOf(url)]++
	}
	if got["calm.example"] != 10 || got["kept.example"] != 10 || got["busy.example"] > 4 || got["busy.example"] < 3 || got["shut.example"] > 4 {
		t.Errorf("claimed %v, want all of calm and kept, three of busy, and none of shut", got)
	}
}

// Claims of a hoster with a learned limit are spread over the mean duration of a visit: 40 in flight and visits of 20
// seconds are two a second. A longer time without claims allows ten seconds' visits at once.
func TestClaimsKeepThePaceOfHostersThatRefuse(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	hosters := model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	testenv.Migrate(t, dsn, migrate.Options{Hosters: hosters})
	store := testenv.Open(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://busy.example/' || n, 'git', '{}', true, now() from generate_series(1, 60) n`,
		`insert into scheduler_go.refusing_hosters values ('busy.example', 40, 'epoch', 40, 'epoch', 'epoch', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', '', 0, 'epoch', false, 20, 100)`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 20}, {time.Second, 2}, {250 * time.Millisecond, 0}, {500 * time.Millisecond, 1}, {250 * time.Millisecond, 1}, {3 * time.Second, 6}} {
		now = now.Add(c.after)
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := (Picker{VisitType: "git", Policies: evenly}).Pick(ctx, tx, now, 60)
			if err != nil {
				return err
			}
			if len(picked.Visits) != c.want || !picked.HostersFull {
				t.Errorf("after %s %d visits were claimed (full: %t), want %d", c.after, len(picked.Visits), picked.HostersFull, c.want)
			}
			work, err := dispatch.VisitWork(ctx, tx, "q", "q", picked.Visits, now)
			if err != nil {
				return err
			}
			return tx.AddWork(ctx, work)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A claim that waits for others counts from the end of its wait: no minute has more visits of a hoster than its limit.
func TestMinuteOfAClaimThatWaits(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	hosters := model.Hosters{LostAfter: time.Hour, Limits: map[string]model.HosterLimit{"busy.example": {PerMinute: 5}}}
	testenv.Migrate(t, dsn, migrate.Options{Hosters: hosters})
	store := testenv.Open(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://busy.example/' || n, 'git', '{}', true, now() from generate_series(1, 60) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	claim := func(now time.Time) (n int) {
		err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := (Picker{VisitType: "git", Policies: evenly}).Pick(ctx, tx, now, 60)
			n = len(picked.Visits)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	const wait = 2 * time.Second
	other, err := store.Pool().Begin(t.Context())
	if err == nil {
		_, err = other.Exec(t.Context(), "select pg_advisory_xact_lock(hashtextextended('swh-scheduler hosters', 0))")
	}
	if err != nil {
		t.Fatal(err)
	}
	began, first := time.Now(), make(chan int)
	go func() { first <- claim(began) }()
	time.Sleep(wait)
	if err := other.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if n := <-first; n != 5 {
		t.Errorf("%d visits were claimed, want 5", n)
	}
	if n := claim(began.Add(time.Minute + wait/2)); n != 0 {
		t.Errorf("%d more visits were claimed, %s after the first ones", n, time.Minute-wait/2)
	}
}
