package celery_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/parsed"
)

// A broker that is short of memory or disk space doesn't read the connections of publishers, and still sends its
// heartbeats. Close ends within its time limit.
func TestCloseWhileTheBrokerSendsOnlyHeartbeats(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	x, through := injectBefore(t, env.URL)
	p := celery.NewPublisher(parsed.Broker(t, through+"?heartbeat=60"), celery.PublisherOptions{Logger: logger(t)})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	x.flow.Lock() // nothing of the client reaches the broker from here on
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Close()
	}()
	began := time.Now()
	for time.Since(began) < 8*time.Second {
		select {
		case <-ended:
			x.flow.Unlock()
			return
		case <-time.After(500 * time.Millisecond):
			x.m.Lock()
			_, _ = x.conn.Write([]byte{8, 0, 0, 0, 0, 0, 0, 0xCE}) // a heartbeat
			x.m.Unlock()
		}
	}
	t.Errorf("Close has not returned after %s", time.Since(began))
	x.flow.Unlock()
	<-ended
}

// Connections that stay open for late answers of a silent broker are closed all at once: Close takes no longer than
// for one of them.
func TestCloseWithSilentConnections(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	proxy, url := proxied(t, env.URL)
	p := celery.NewPublisher(parsed.Broker(t, url), celery.PublisherOptions{Logger: logger(t), ConfirmTimeout: 100 * time.Millisecond})
	for i := range 4 {
		if err := p.Connect(deadline(t)); err != nil {
			t.Fatal(err)
		}
		proxy.Silence(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := p.Publish(ctx, tasks("silent"+strconv.Itoa(i), 1))[0]
		cancel()
		if !errors.Is(err, celery.ErrUnconfirmed) {
			t.Fatal(err)
		}
	}
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	proxy.Silence(false)
	began := time.Now()
	_ = p.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("closing five connections took %s", took)
	}
}
