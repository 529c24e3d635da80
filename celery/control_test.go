package celery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// Remote control lists the tasks and queues of a real worker, and revokes tasks.
func TestRemoteControl(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	b := parsed.Broker(t, env.URL)
	sleep := "swh.test.Sleep"
	w := startWorker(t, env.URL, []string{sleep, "swh.test.Echo"})
	// Control waits for named nodes only until all of them have replied.
	c := celery.NewControl(b, celery.ControlOptions{Timeout: patience})
	here := celery.Destination{Nodes: []string{w.node}}
	pong := func(c *celery.Control, to celery.Destination) error {
		replies, err := c.Ping(ctx, to)
		if err != nil || len(replies) != 1 || replies[0].Node != w.node || string(replies[0].Value) != `{"ok": "pong"}` || replies[0].After <= 0 {
			return fmt.Errorf("%+v: %+v, %v", to, replies, err)
		}
		return nil
	}
	for _, to := range []celery.Destination{here, celery.ParseDestination(w.node)} {
		if err := pong(c, to); err != nil {
			t.Error(err)
		}
	}
	brief := celery.NewControl(b, celery.ControlOptions{Timeout: 500 * time.Millisecond})
	for _, to := range []celery.Destination{celery.ParseDestination("worker@*control"), {}} {
		testenv.Becomes(t, "the worker replies in time", nil, func() error { return pong(brief, to) })
	}
	for _, to := range []celery.Destination{celery.ParseDestination("nobody@nowhere"), celery.ParseDestination("nobody@*")} {
		if replies, err := brief.Ping(ctx, to); err != nil || len(replies) != 0 {
			t.Errorf("%+v: %+v, %v", to, replies, err)
		}
	}

	known, err := c.Registered(ctx, here)
	if want := (celery.RegisteredTask{Name: "swh.test.Sleep", Function: "sleep"}); err != nil || !slices.Contains(known[w.node], want) {
		t.Errorf("registered: %v, %v; want %v among them", known, err, want)
	}
	if want := (celery.RegisteredTask{Name: "swh.test.Retry", Function: "retry"}); !slices.Contains(known[w.node], want) {
		t.Errorf("registered: %v, want %v, a method, among them", known, want)
	}

	p := publisher(t, b, celery.PublisherOptions{})
	msgs := tasks(sleep, 3)
	for i := range msgs {
		msgs[i].Name, msgs[i].Args = sleep, []byte(`[120]`)
	}
	// The worker takes one task more than it executes, and a task with an ETA counts. Celery with RabbitMQ 3 takes
	// another task once it has that one; with RabbitMQ 4 it takes none.
	msgs[2].Queue, msgs[2].ETA = "swh.test.Echo", time.Now().Add(time.Hour)
	if err := errors.Join(p.Publish(ctx, msgs[2:])...); err != nil {
		t.Fatal(err)
	}
	testenv.Becomes(t, "one task waits for its time", nil, func() error {
		scheduled, err := c.Scheduled(ctx, here)
		if err == nil && len(scheduled[w.node]) != 1 {
			err = fmt.Errorf("%+v\n%s", scheduled, w.log)
		}
		return err
	})
	if err := errors.Join(p.Publish(ctx, msgs[:2])...); err != nil {
		t.Fatal(err)
	}
	testenv.Becomes(t, "the worker has all three", nil, func() error {
		active, err1 := c.Active(ctx, here)
		reserved, err2 := c.Reserved(ctx, here)
		scheduled, err3 := c.Scheduled(ctx, here)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		running, kept, waiting := active[w.node], reserved[w.node], scheduled[w.node]
		if len(running) != 1 || len(waiting) != 1 || !slices.ContainsFunc(kept, func(i celery.TaskInfo) bool { return i.ID == msgs[1].ID }) {
			return fmt.Errorf("%+v, %+v, %+v\n%s", running, kept, waiting, w.log)
		}
		if r := running[0]; r.ID != msgs[0].ID || r.Name != sleep || string(r.Args) != "[120]" || r.TimeStart == nil ||
			time.Since(time.Unix(int64(*r.TimeStart), 0)).Abs() > time.Hour || r.DeliveryInfo.RoutingKey != sleep || r.DeliveryInfo.Priority == nil {
			t.Errorf("%+v", r)
		}
		if s := waiting[0]; s.Request.ID != msgs[2].ID || !strings.HasPrefix(s.ETA, msgs[2].ETA.UTC().Format("2006-01-02T15:04:05")) {
			t.Errorf("%+v", s)
		}
		return nil
	})
	stats, err := c.Stats(ctx, here)
	if s := stats[w.node]; err != nil || s.Pool.MaxConcurrency != 1 || len(s.Pool.Processes) != 1 || s.PID == 0 || s.Total[sleep] == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	queues, err := c.ActiveQueues(ctx, here)
	names := []string{}
	for _, q := range queues[w.node] {
		names = append(names, q.Name)
		if q.Exchange.Name != q.Name || q.Exchange.Type != "direct" || !q.Durable {
			t.Errorf("%+v", q)
		}
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"swh.test.Echo", sleep}) {
		t.Errorf("%v, %v", names, err)
	}

	if answers, err := c.Revoke(ctx, here, []string{msgs[0].ID, msgs[1].ID}, celery.Revocation{Terminate: true, Signal: "SIGKILL"}); err != nil || answers[w.node] == "" {
		t.Errorf("%v, %v", answers, err)
	}
	testenv.Becomes(t, "the revoked tasks are gone", nil, func() error {
		active, err := c.Active(ctx, here)
		if err == nil && len(active[w.node]) > 0 {
			err = fmt.Errorf("%+v", active)
		}
		return err
	})

	var refusal *celery.ReplyError
	replies, err := c.Call(ctx, here, "add_consumer", map[string]any{"nonsense": 1})
	if err != nil || len(replies) != 1 || !errors.As(replies[0].Decode(&struct{}{}), &refusal) || refusal.Node != w.node {
		t.Errorf("%v, %v", replies, err)
	}
}

// If the broker can't be reached, the result is an error, not an empty list.
func TestRemoteControlWithoutBroker(t *testing.T) {
	t.Parallel()
	c := celery.NewControl(parsed.Broker(t, "amqp://u:secret@127.0.0.1:1"), celery.ControlOptions{})
	if _, err := c.Ping(deadline(t), celery.Destination{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
