package listener

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/celery"
	"swh-scheduler/internal/settle"
)

// desk is a store whose calls wait for their answers.
type desk struct {
	nothing
	calls chan deskCall
}

type deskCall struct {
	id     string // of the first outcome
	locked func()
	answer chan error
}

func (d *desk) ApplyInTurn(ctx context.Context, o []settle.Outcome, locked func()) error {
	c := deskCall{o[0].BackendID, locked, make(chan error)}
	select {
	case d.calls <- c:
		return <-c.answer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acks is a source that records the acknowledgements of its messages by their bodies' order.
type acks struct {
	script
	got chan int
}

func (a *acks) AckUpTo(d celery.Delivery) error {
	for i, body := range a.bodies {
		if &body[0] == &d.Body[0] {
			a.got <- i
		}
	}
	return nil
}

// overlapping starts a listener on batches of a message each, whose runs are 0, 1 and so on.
func overlapping(t *testing.T, n int) (source *acks, store *desk, stop func()) {
	source, store = &acks{got: make(chan int, n)}, &desk{calls: make(chan deskCall)}
	for i := range n {
		events := make([]event, maxEvents)
		for k := range events {
			events[k] = startedEvent(string(rune('0' + i)))
		}
		source.bodies = append(source.bodies, message(t, events...))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- newTestListener(t, source, store).Run(ctx) }()
	return source, store, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// next returns the next call within a minute; "" if there is none.
func (d *desk) next() deskCall {
	select {
	case c := <-d.calls:
		return c
	case <-time.After(time.Minute):
		return deskCall{}
	}
}

// The second batch begins once the first has its locks. A third waits for an end. The acknowledgements keep the order.
func TestBatchesOverlapInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, store, stop := overlapping(t, 3)
		first := store.next()
		if c := store.next(); c.id != "" {
			t.Errorf("batch %s began before the locks of batch %s", c.id, first.id)
		}
		first.locked()
		first.locked() // a repeated transaction
		second := store.next()
		second.locked()
		if c := store.next(); c.id != "" {
			t.Errorf("batch %s began beside two others", c.id)
		}
		second.answer <- nil
		synctest.Wait()
		if len(source.got) > 0 {
			t.Error("the second batch is acknowledged before the first one")
		}
		first.answer <- errors.New("away") // it is tried again
		again := store.next()
		again.answer <- nil
		third := store.next()
		third.answer <- nil
		if diff := cmp.Diff([]string{"0", "1", "0", "2"}, []string{first.id, second.id, again.id, third.id}); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, []int{<-source.got, <-source.got, <-source.got}); diff != "" {
			t.Errorf("acknowledgements (-want +got):\n%s", diff)
		}
		stop()
	})
}

// A batch that is written isn't acknowledged if the one before it is given up: that would acknowledge both.
func TestGivenUpBatchIsNotAcknowledgedByTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, store, stop := overlapping(t, 2)
		first := store.next()
		first.locked()
		second := store.next()
		second.answer <- nil
		go func() {
			time.Sleep(time.Second)
			first.answer <- errors.New("away")
		}()
		stop()
		if len(source.got) > 0 {
			t.Errorf("message %d is acknowledged", <-source.got)
		}
	})
}

// When the listener is stopped and gives a batch up, the batches after it aren't applied: they would precede it.
func TestBatchAfterAGivenUpOneIsNotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, store, stop := overlapping(t, 3)
		first := store.next()
		first.locked()
		second := store.next()
		stopped := make(chan bool)
		go func() {
			stop()
			close(stopped)
		}()
		synctest.Wait()
		second.answer <- errors.New("away")
		if c := store.next(); c.id != "" {
			t.Errorf("batch %s is applied", c.id)
			c.answer <- nil
		}
		first.answer <- nil
		<-stopped
		if len(source.got) != 1 || <-source.got != 0 {
			t.Error("the first batch isn't acknowledged alone")
		}
	})
}

// The delay counts from the first event that isn't acknowledged, also while the batch before it is.
func TestLagOfBatchesThatOverlap(t *testing.T) {
	t.Parallel()
	var l lag
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	l.read(1, 100)
	l.read(1, 50) // by a wrong clock
	l.read(3, 110)
	l.read(3, 111)
	var got []float64
	got = append(got, l.seconds(at(120)))
	l.acknowledged(1, at(125), at(125))
	got = append(got, l.seconds(at(126)), l.seconds(at(150)))
	l.acknowledged(2, at(151), at(151)) // without a date
	got = append(got, l.seconds(at(152)))
	l.acknowledged(3, at(153), at(153))
	got = append(got, l.seconds(at(200)))
	if diff := cmp.Diff([]float64{20, 25, 40, 42, 43}, got); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
}
