package origins_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// BenchmarkFilteredGrab compares grabs of 1,000 origins on one database: ours from candidates, and the
// Python scheduler's from its tables. It measures dry grabs by each policy, dry grabs with filters, and
// real grabs, of which ours have the drain in "ms". In a unique order both must return the same origins.
//
// SWH_BENCH_DATABASE is used as by BenchmarkCosts.
func BenchmarkFilteredGrab(b *testing.B) {
	lister := uuid.NullUUID{UUID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Valid: true}
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			dsn := benchDatabase
			if dsn == "" {
				dsn = testenv.PythonDatabase(b)
			}
			testenv.Migrate(b, dsn, migrate.Options{ShorterCooldowns: true})
			w := newBenchWorld(b, dsn, size)
			peer := startPeerScript(b, "postgresql", dsn)
			plain := func(policy model.VisitPolicy) model.VisitFilter {
				return model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns}
			}
			for _, policy := range plainPolicies {
				b.Run("dry/"+string(policy), func(b *testing.B) { w.compareGrabs(b, peer, plain(policy), true) })
			}
			for _, filter := range []struct {
				name string
				set  func(*model.VisitFilter)
			}{
				{"tablesample", func(f *model.VisitFilter) { f.TableSample = 0.1 }},
				{"longer cooldowns", func(f *model.VisitFilter) { f.Cooldowns.Absolute *= 30 }},
				{"shorter cooldowns", func(f *model.VisitFilter) { f.Cooldowns.Scheduled /= 2 }},
				{"of the Python command", func(f *model.VisitFilter) {
					f.Cooldowns.Failed, f.Cooldowns.NotFound = f.Cooldowns.NotFound, f.Cooldowns.Failed
				}},
				{"no cooldowns", func(f *model.VisitFilter) { f.Cooldowns = model.Cooldowns{} }},
				{"lister", func(f *model.VisitFilter) { f.ListerID = lister }},
				{"first visits", func(f *model.VisitFilter) {
					f.Policy, f.ListerID, f.Cooldowns = model.FirstVisitsAfterListing, lister, model.Cooldowns{}
				}},
			} {
				f := plain(model.AlreadyVisitedOrderByLag)
				filter.set(&f)
				b.Run(filter.name, func(b *testing.B) { w.compareGrabs(b, peer, f, true) })
			}
			for _, policy := range plainPolicies {
				b.Run("real/"+string(policy), func(b *testing.B) { w.compareGrabs(b, peer, plain(policy), false) })
			}
		})
	}
}

// compareGrabs compares our grabs with the Python scheduler's on the same database.
func (w *benchWorld) compareGrabs(b *testing.B, peer peerScript, f model.VisitFilter, dryRun bool) {
	b.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	question := call{"call": "grabbed", "now": now.Format("2006-01-02T15:04:05.000000+00:00"), "policy": f.Policy, "dry_run": dryRun}
	for name, cooldown := range map[string]time.Duration{"absolute": f.Cooldowns.Absolute, "scheduled": f.Cooldowns.Scheduled, "failed": f.Cooldowns.Failed, "not_found": f.Cooldowns.NotFound} {
		question[name+"_cooldown"] = cooldown.Seconds()
	}
	if f.TableSample != 0 {
		question["tablesample"] = f.TableSample
	}
	if f.ListerID.Valid {
		question["lister_uuid"] = f.ListerID.UUID
	}
	var theirs struct {
		MS   float64
		URLs []string
	}
	var ours []model.ListedOrigin
	grab := func() { ours = w.grabAt(b, f, now, dryRun) }
	bench.Compare(b, bench.Side{Name: bench.Ours, Run: func() bench.Figures {
		if dryRun {
			return only(ms(grab))
		}
		return w.done(b, grab)
	}}, bench.Side{Name: bench.PeerBeside, Run: func() bench.Figures {
		peer.Ask(b, question, &theirs)
		if dryRun {
			return only(theirs.MS)
		}
		bench.Drain(b, w.store)
		return undrained(theirs.MS)
	}})
	urls := []string{}
	for _, o := range ours {
		urls = append(urls, o.URL)
	}
	// A sample is random, and the other orders have many equal keys.
	unique := dryRun && f.TableSample == 0 && slices.Contains([]model.VisitPolicy{model.StopAfterSuccess, model.NeverVisitedOldestUpdateFirst, model.AlreadyVisitedOrderByLag}, f.Policy)
	if diff := cmp.Diff(theirs.URLs, urls); unique && diff != "" {
		b.Errorf("the Python scheduler and ours return other origins (-theirs +ours):\n%s", diff)
	}
}
