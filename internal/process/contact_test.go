package process

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"swh-scheduler/internal/service"
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
