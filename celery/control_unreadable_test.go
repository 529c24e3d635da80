package celery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// A reply that can't be read is an error beside the other replies, for inspections and revocations.
func TestUnreadableReplies(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	b := parsed.Broker(t, env.URL)
	conn, err := amqp.Dial(env.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.ExchangeDeclare("celery.pidbox", amqp.ExchangeFanout, false, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = ch.QueueBind(queue.Name, "", "celery.pidbox", false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	requests, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"revoke": `{"ok": "tasks x flagged as revoked"}`, "active": `[{"id": "x", "name": "swh.test", "args": [], "kwargs": {}}]`, "stats": `{"pid": 7}`,
	}
	go func() {
		for d := range requests {
			var r struct {
				Method, Ticket string
				ReplyTo        struct {
					Exchange   string `json:"exchange"`
					RoutingKey string `json:"routing_key"`
				} `json:"reply_to"`
			}
			if json.Unmarshal(d.Body, &r) != nil {
				continue
			}
			for _, body := range []string{`{"first@host": `, `[1]`, "\xff", `{"second@host": ` + answers[r.Method] + `}`, `{"third@host": {"error": "no"}}`, `{"fourth@host": ` + answers[r.Method] + `}`} {
				_ = ch.Publish(r.ReplyTo.Exchange, r.ReplyTo.RoutingKey, false, false, amqp.Publishing{
					ContentType: "application/json", Headers: amqp.Table{"ticket": r.Ticket}, Body: []byte(body),
				})
			}
		}
	}()
	// All six nodes reply long before the timeout.
	c := celery.NewControl(b, celery.ControlOptions{Timeout: patience})
	to := celery.Destination{Nodes: []string{"first@host", "second@host", "third@host", "fourth@host", "fifth@host", "sixth@host"}}
	began := time.Now()
	check := func(what string, got int, err error) {
		t.Helper()
		if got != 2 || err == nil || !strings.Contains(err.Error(), "reading a reply") || !strings.Contains(err.Error(), "and 2 more") || !strings.Contains(err.Error(), "third@host: no") {
			t.Errorf("%s: %d answers, %v", what, got, err)
		}
	}
	active, err := c.Active(deadline(t), to)
	check("active", len(active), err)
	stats, err := c.Stats(deadline(t), to)
	check("stats", len(stats), err)
	revoked, err := c.Revoke(deadline(t), to, []string{"x"}, celery.Revocation{})
	check("revoke", len(revoked), err)
	if took := time.Since(began); took > patience {
		t.Errorf("it took %s", took)
	}
}
