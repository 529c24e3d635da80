package celery_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// If the exchange of a route is missing, only messages of that route fail. They are sent once the exchange exists.
func TestMissingExchangeFailsItsOwnMessagesOnly(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx, ch := deadline(t), testenv.Channel(t, env.URL)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{Sending: celery.SendSettings{Routes: []celery.Route{
		{Task: regexp.MustCompile("^routed$"), Queue: "q", Form: celery.Form{Exchange: "x", RoutingKey: "k"}},
	}}})
	testenv.Declare(t, ch, "q", nil)
	var msgs []celery.TaskMessage
	for _, name := range []string{"plain", "routed", "plain"} {
		msgs = append(msgs, celery.TaskMessage{ID: uuid.NewString(), Name: name, Queue: "q"})
	}
	send := func() (routed error) {
		errs := p.Publish(ctx, msgs)
		if err := errors.Join(errs[0], errs[2]); err != nil {
			t.Fatalf("others: %v", err)
		}
		return errs[1]
	}
	var returned *celery.ReturnedError
	if err := send(); !errors.As(err, &returned) || !celery.IsPermanent(err) {
		t.Errorf("without the exchange: %v", err)
	}
	if err := ch.ExchangeDeclare("x", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := send(); !errors.As(err, &returned) || returned.Code != 312 {
		t.Errorf("without a binding: %v", err)
	}
	if err := ch.QueueBind("q", "k", "x", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	if ids := taskIDs(t, ch, "q"); ids[msgs[1].ID] != 1 || ids[msgs[0].ID] != 3 {
		t.Errorf("arrived: %v", ids)
	}
}

// If the broker refuses a queue's arguments, only messages for that queue fail, with the broker's reason.
func TestRefusedArgumentsFailTheirQueueOnly(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "there", nil)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{Sending: celery.SendSettings{MaxPriority: 300}})
	if err := p.DeclareQueue(ctx, "there"); err != nil {
		t.Error(err)
	}
	if err := p.DeclareQueue(ctx, "missing"); !celery.IsOfQueue(err) || !strings.Contains(err.Error(), "x-max-priority") {
		t.Errorf("got %v", err)
	}
}

// The encoder reuses its headers, but sets a compression only for compressed messages. A value that msgpack can't encode
// is a permanent error.
func TestFormsOfTasksDiffer(t *testing.T) {
	t.Parallel()
	encode := celery.EncodeAs(celery.SendSettings{Routes: []celery.Route{
		{Task: regexp.MustCompile("^packed$"), Form: celery.Form{Serializer: "msgpack", Compression: celery.Compressions["gzip"], Priority: 3}},
	}})
	for _, name := range []string{"plain", "packed", "plain"} {
		p, err := encode(&celery.TaskMessage{ID: "id", Name: name, Queue: "q"})
		if err != nil {
			t.Fatal(err)
		}
		packed := name == "packed"
		if _, compressed := p.Headers["compression"]; compressed != packed || (p.ContentType == "application/x-msgpack") != packed || (p.Priority == 3) != packed || p.DeliveryMode != 2 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	_, err := encode(&celery.TaskMessage{ID: "id", Name: "packed", Queue: "q", Args: []byte(`[18446744073709551616]`)})
	if !celery.IsPermanent(err) {
		t.Errorf("an integer of 65 bits: %v", err)
	}
}
