package origins_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// paused is a pool whose transactions wait before they commit, as one that takes long.
type paused struct {
	*pgxpool.Pool
	atCommit, goOn chan struct{}
}

func (p paused) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := p.Pool.Begin(ctx)
	return pausedTx{tx, p}, err
}

type pausedTx struct {
	pgx.Tx
	p paused
}

func (tx pausedTx) Commit(ctx context.Context) error {
	close(tx.p.atCommit)
	<-tx.p.goOn
	return tx.Tx.Commit(ctx)
}

// visitsGoOn claims visits and records some, each within a few seconds.
func (w *grabWorld) visitsGoOn(t *testing.T) {
	t.Helper()
	within := func(what string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // lock_timeout is 60 s
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	within("claim", func(ctx context.Context) error {
		return w.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, w.now, 10, false)
			if err == nil && len(origins) != 10 {
				t.Errorf("%d origins, want 10", len(origins))
			}
			return err
		})
	})
	keys := []model.OriginKey{{URL: "https://example.org/1", VisitType: "git"}, {URL: "https://new.example.org/", VisitType: "git"}}
	within("journal", func(ctx context.Context) error {
		return w.store.UpdateVisitStats(ctx, keys, func(ledger.KnownVisits) (c ledger.VisitChanges) {
			for _, k := range keys {
				c.Stats = append(c.Stats, &model.VisitStats{URL: k.URL, VisitType: k.VisitType, LastVisit: &w.now, LastVisitStatus: model.VisitFailed, NextVisitQueuePosition: new(int64(1)), SuccessiveVisits: 1})
			}
			return c
		})
	})
}

// Claims and the journal don't wait for an index that a build of candidates creates, which takes minutes for many origins.
func TestVisitsBesideAnIndexOfABuild(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
	var size bulk.BatchSize
	for phase := ""; phase != "indexes"; phase = testenv.Value[string](t, w.store.Pool(), "select phase from scheduler_go.candidate_build") {
		if _, err := candidates.BuildStep(t.Context(), w.store.Pool(), &size); err != nil {
			t.Fatal(err)
		}
	}
	slow := paused{w.store.Pool(), make(chan struct{}), make(chan struct{})}
	built := make(chan error)
	go func() {
		_, err := candidates.BuildStep(t.Context(), slow, &size)
		built <- err
	}()
	<-slow.atCommit
	w.visitsGoOn(t)
	close(slow.goOn)
	if err := <-built; err != nil {
		t.Error(err)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// A build that begins while a dump reads candidates waits for a moment, not with all claims behind it.
func TestVisitsBesideADumpAndABuild(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	dump, err := w.store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(t.Context()) }()
	if _, err := dump.Exec(t.Context(), "lock table scheduler_go.candidates in access share mode"); err != nil { // as pg_dump does
		t.Fatal(err)
	}
	w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
	building, stop := context.WithCancel(t.Context())
	built := make(chan error)
	go func() {
		_, err := w.store.MaintainCandidates(building)
		built <- err
	}()
	testenv.Becomes(t, "builds that wait for the table", 1, func() int {
		return testenv.Value[int](t, w.store.Pool(), "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock' and relation = 'scheduler_go.candidates'::regclass")
	})
	w.visitsGoOn(t)
	stop()
	<-built
}
