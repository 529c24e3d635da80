package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/ledger"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func skips(p *backOff, seconds float64) bool { return slices.Contains(p.queues(at(seconds)), "q") }

// A queue that fails is backed off for a second, then twice as long each time, up to 15 s, until it takes a
// message. The failure of a concurrent batch doesn't lengthen the wait.
func TestFailedQueueIsBackedOff(t *testing.T) {
	p := newBackOff()
	now := 0.0
	for i, want := range []float64{1, 2, 4, 8, 15, 15} {
		delay, longer := p.fail("q", at(now))
		if delay.Seconds() != want || longer != (i < 5) {
			t.Errorf("failure %d: backed off for %v, longer: %v; want %v s", i, delay, longer, want)
		}
		if delay, longer := p.fail("q", at(now+want/2)); delay.Seconds() != want/2 || longer {
			t.Errorf("failure %d, of another batch: backed off for %v, longer: %v; want %v s", i, delay, longer, want/2)
		}
		if !skips(p, now+want-0.1) || skips(p, now+want) {
			t.Errorf("failure %d: skipped before its time: %v, at its time: %v", i, skips(p, now+want-0.1), skips(p, now+want))
		}
		now += want
	}
	if !p.works("q") || p.works("q") {
		t.Error("its failure does not end once")
	}
	if delay, _ := p.fail("q", at(now)); delay != firstBackOff {
		t.Errorf("after it worked it is backed off for %v", delay)
	}
}

// A queue that doesn't answer is retried at once, because another queue may be the cause. The second time it is
// backed off until it answers.
func TestSilentQueueIsTriedOnceMore(t *testing.T) {
	p := newBackOff()
	message := &unanswered{row: ledger.Outgoing{Work: ledger.Work{TaskID: uuid.New(), Queue: "q"}}, answer: never{}}
	p.addUnanswered([]*unanswered{message})
	if p.silent("q", at(0)); skips(p, 0) {
		t.Error("it is skipped after one silence")
	}
	if p.silent("q", at(0)); !skips(p, 0) || !skips(p, 100) {
		t.Errorf("after two silences it is skipped at once: %v, later: %v", skips(p, 0), skips(p, 100))
	}
	p.settled([]*unanswered{message}, nil, at(0.5))
	if !skips(p, 0.9) || skips(p, 1) {
		t.Errorf("without unanswered messages it is skipped before its time: %v, at its time: %v", skips(p, 0.9), skips(p, 1))
	}
}

type never struct{}

func (never) Answered() <-chan struct{} { return nil }
func (never) Result() error             { panic("it isn't answered") }

// A batch skips messages that another batch has reserved, or that the broker may still confirm, also if it read
// them before that was recorded.
func TestMessagesAreTakenOnce(t *testing.T) {
	p := newBackOff()
	var rows []ledger.Outgoing
	for range 4 {
		rows = append(rows, ledger.Outgoing{Work: ledger.Work{TaskID: uuid.New(), Queue: "q"}})
	}
	take := func(want ...int) {
		t.Helper()
		got := p.reserve(slices.Clone(rows))
		if !slices.EqualFunc(got, want, func(row ledger.Outgoing, i int) bool { return row.TaskID == rows[i].TaskID }) {
			t.Errorf("%d messages are taken, want %v", len(got), want)
		}
	}
	p.addUnanswered([]*unanswered{{row: rows[1], answer: never{}}})
	p.reserve(rows[:1])
	take(2, 3)
	take()
	p.release(rows[2:])
	take(2, 3)
	p.release(rows)
	p.settled([]*unanswered{{row: rows[1]}}, nil, at(0))
	take(0, 1, 2, 3)
}

// The lease of an unanswered message is renewed every 15 s.
func TestLeasesAreRenewed(t *testing.T) {
	p := newBackOff()
	p.addUnanswered([]*unanswered{{row: ledger.Outgoing{Work: ledger.Work{TaskID: uuid.New()}}, answer: never{}, leased: at(0)}})
	var renewed []float64
	for now := 0.0; now <= 50; now += 5 {
		answered, renew := p.answers(at(now))
		if len(answered) > 0 {
			t.Error("it is answered")
		}
		if len(renew) > 0 {
			renewed = append(renewed, now)
		}
		p.settled(nil, renew, at(now))
	}
	if want := []float64{15, 30, 45}; !slices.Equal(renewed, want) {
		t.Errorf("renewed at %v, want %v s", renewed, want)
	}
}
