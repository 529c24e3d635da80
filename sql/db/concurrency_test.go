package db_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/origins"
)

// Programs that start at the same time and ask for the same lister all get the one that the fastest
// created.
func TestGetOrCreateListerConcurrently(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for round := range 10 {
		ids := make([]uuid.UUID, 8)
		g, ctx := errgroup.WithContext(t.Context())
		for i := range ids {
			g.Go(func() error {
				lister, err := store.GetOrCreateLister(ctx, "gitlab", fmt.Sprint(round), nil)
				ids[i] = lister.ID
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if id != ids[0] || id == uuid.Nil {
				t.Errorf("round %d: listers %v, want one", round, ids)
				break
			}
		}
	}
}

// Listers that record the same origins at the same time, each in its own order, never deadlock. Each origin
// has one row.
func TestRecordListedOriginsConcurrently(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	lister, err := store.GetOrCreateLister(t.Context(), "gitlab", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	const urls = 200
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 6 {
		random := rand.New(rand.NewPCG(seed.Of(t), uint64(i)))
		g.Go(func() error {
			for range 5 {
				origins := make([]model.ListedOrigin, urls)
				for i, n := range random.Perm(urls) {
					origins[i] = model.ListedOrigin{
						ListerID: lister.ID, URL: fmt.Sprint("https://example.org/", n), VisitType: "git", Enabled: true,
					}
				}
				if _, err := store.RecordListedOrigins(ctx, origins, false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	all, next, err := store.ListedOrigins(t.Context(), origins.ListedOriginFilter{Limit: 10 * urls})
	if err != nil || next != nil || len(all) != urls {
		t.Errorf("%d origins, next page %v, %v; want %d and no more", len(all), next, err, urls)
	}
}
