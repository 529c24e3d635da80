package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// BenchmarkFilteredGrab times dry grabs of 1,000 origins with filters: from candidates, and, as
// while these are built, from the Python scheduler's tables.
func BenchmarkFilteredGrab(b *testing.B) {
	lister := uuid.NullUUID{UUID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Valid: true}
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newBenchWorld(b, testenv.PeerDatabase(b), size)
			for _, filter := range []struct {
				name string
				set  func(*model.VisitFilter)
			}{
				{"plain", func(*model.VisitFilter) {}},
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
				f := model.VisitFilter{VisitType: "git", Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.DefaultCooldowns}
				filter.set(&f)
				grab := func() bench.Figures {
					return bench.Figures{"ms": ms(func() {
						if err := w.store.InTx(b.Context(), func(ctx context.Context, tx *db.Tx) error {
							_, err := tx.GrabNextVisits(ctx, f, time.Now(), 1000, true)
							return err
						}); err != nil {
							b.Fatal(err)
						}
					})}
				}
				b.Run(filter.name, func(b *testing.B) {
					bench.Compare(b, bench.Side{Name: "candidates", Run: grab}, bench.Side{Name: "tables", Run: func() bench.Figures {
						w.exec(b, "update scheduler_go.candidate_build set phase = 'empty'")
						defer w.exec(b, "update scheduler_go.candidate_build set phase = 'ready'")
						return grab()
					}})
				})
			}
		})
	}
}
