package process

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
)

// A daemon stops at once while a service doesn't answer its probe.
func TestStoppingWhileAProbeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		p := &Process{Options: Options{Log: log}, Health: service.NewHealth()}
		asked := make(chan struct{})
		probe := p.Probe("RabbitMQ", func(ctx context.Context) error {
			close(asked)
			<-ctx.Done() // the service swallows packets
			return ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- service.Group{Log: log}.Run(ctx, probe) }()
		<-asked
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A daemon isn't ready once its database has been replaced by an empty one.
func TestReplacedDatabase(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)) // by the door, the server finds that its database is another one
	var logs testenv.Buffer
	p := &Process{Options: Options{Log: logs.Logger()}, Store: store, Health: service.NewHealth()}
	testenv.Exec(t, store.Pool(), "drop schema public, scheduler_go cascade; create schema public")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.contactWithDatabase().Run(ctx) })
	defer running.Wait()
	defer stop()
	testenv.Becomes(t, "services that the daemon waits for", 1, func() int { return len(p.Health.NotReady()) })
	if !strings.Contains(logs.String(), "PostgreSQL is reachable, but refuses") {
		t.Errorf("the log says %s", logs.String())
	}
}
