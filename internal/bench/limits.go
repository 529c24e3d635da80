package bench

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Limit returns the name of a side that is a limit.
func Limit(name string) string { return "limit:" + name }

// BarePublisher returns a bare loop over the AMQP library. The loop sends a message n times to an existing queue,
// with up to 1,000 unconfirmed messages, and returns its seconds.
func BarePublisher(b *testing.B, broker string) func(queue string, n int, message amqp.Publishing) float64 {
	b.Helper()
	const window = 1000
	ch, closeIt := channel(b, broker)
	b.Cleanup(closeIt)
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	return func(queue string, n int, message amqp.Publishing) float64 {
		flying := make([]*amqp.DeferredConfirmation, n)
		wait := func(i int) {
			if !flying[i].Wait() {
				b.Fatal("the broker refused a message")
			}
			flying[i] = nil
		}
		began := time.Now()
		for i := range n {
			if i >= window {
				wait(i - window)
			}
			var err error
			if flying[i], err = ch.PublishWithDeferredConfirm("", queue, true, false, message); err != nil {
				b.Fatal(err)
			}
		}
		for i := max(0, n-window); i < n; i++ {
			wait(i)
		}
		return time.Since(began).Seconds()
	}
}

// Take takes a message from a queue and converts it to a message to send.
func Take(b *testing.B, broker, queue string) amqp.Publishing {
	b.Helper()
	ch, closeIt := channel(b, broker)
	defer closeIt()
	d, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		b.Fatalf("no message in %s: %v", queue, err)
	}
	return amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Body: d.Body,
	}
}

// Empty removes the ready messages of a queue and returns their number.
func Empty(b *testing.B, broker, queue string) int {
	b.Helper()
	ch, closeIt := channel(b, broker)
	defer closeIt()
	n, err := ch.QueuePurge(queue, false)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func channel(b *testing.B, broker string) (ch *amqp.Channel, closeIt func()) {
	b.Helper()
	conn, err := amqp.Dial(broker)
	if err != nil {
		b.Fatal(err)
	}
	if ch, err = conn.Channel(); err != nil {
		b.Fatal(err)
	}
	return ch, func() { _ = conn.Close() }
}

// Answerer builds the server answer, which answers all requests alike. It returns a function that makes the command
// to run it.
func Answerer(b *testing.B) func(address, contentType string, answer []byte) *exec.Cmd {
	b.Helper()
	path := build(b, "swh-scheduler/internal/bench/answer")
	return func(address, contentType string, answer []byte) *exec.Cmd {
		cmd := exec.Command(path, address, contentType)
		cmd.Stdin = bytes.NewReader(answer)
		return cmd
	}
}
