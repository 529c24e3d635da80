package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// silenceBound is the time within which work continues after connections have become silent.
const silenceBound = 45 * time.Second

// quiet is a store whose connections the test can silence.
func quiet(t *testing.T) (store *db.Store, way *testenv.Toxic, dsn string) {
	t.Helper()
	dsn = testenv.Database(t)
	through, way := testenv.Through(t, dsn, testenv.Proxy)
	return testenv.OpenLocal(t, through), way, dsn
}

func sleep(ctx context.Context, store *db.Store, seconds float64) error {
	_, err := store.Pool().Exec(ctx, "select pg_sleep($1)", seconds)
	return err
}

// When all connections become silent, waiting statements fail like those of lost connections, and later
// ones get new connections.
func TestSilentConnectionsAreLeft(t *testing.T) {
	t.Parallel()
	store, way, _ := quiet(t)
	const connections = 8
	var began sync.WaitGroup
	began.Add(connections)
	silent, failed := make(chan struct{}), make(chan error, connections)
	for i := range connections {
		go func() {
			failed <- store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				began.Done()
				<-silent
				return tx.LockQueues(ctx, fmt.Sprint(i))
			})
		}()
	}
	began.Wait()
	way.Silence(false)
	since := time.Now()
	close(silent)
	for range connections {
		if err := <-failed; !postgres.IsUnreachable(err) {
			t.Errorf("%v, want a lost connection", err)
		}
	}
	for range 3 * connections {
		if err := sleep(t.Context(), store, 0); err != nil {
			t.Error(err)
		}
	}
	if d := time.Since(since); d > silenceBound {
		t.Errorf("work went on after %s", d)
	}
}

// A listener gets notifications again after its connection has become silent.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	store, way, _ := quiet(t)
	woken := make(chan struct{}, 100)
	listening, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Listener(db.GraphChannel)(listening, func() { woken <- struct{}{} }) }()
	<-woken
	way.Silence(false)
	select {
	case err := <-ended:
		if !postgres.IsUnreachable(err) {
			t.Errorf("%v, want a lost connection", err)
		}
	case <-time.After(silenceBound):
		t.Errorf("still listening after %s", silenceBound)
	}
	stop()
}

// The locks of a silent client are released.
func TestSilentClientsLocksAreFreed(t *testing.T) {
	t.Parallel()
	store, way, dsn := quiet(t)
	other := testenv.OpenLocal(t, dsn)
	locked, held, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.LockQueues(ctx, "q"); err != nil {
				return err
			}
			close(locked)
			<-held
			return nil
		})
	}()
	<-locked
	way.Silence(false)
	ctx, cancel := context.WithTimeout(t.Context(), silenceBound)
	defer cancel()
	if err := other.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return tx.LockQueues(ctx, "q") }); err != nil {
		t.Errorf("%v, after %s", err, silenceBound)
	}
	way.Cut()
	close(held)
	if err := <-ended; !postgres.IsUnreachable(err) {
		t.Errorf("%v, want a lost connection", err)
	}
}

// A long statement is not ended: the database reports that it works.
func TestLongStatementsAreWaitedFor(t *testing.T) {
	t.Parallel()
	store, _, _ := quiet(t)
	if err := sleep(t.Context(), store, 22); err != nil {
		t.Error(err)
	}
}
