package dispatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/ledger"
)

const (
	// A queue that fails gets no messages for firstBackOff. The time doubles with each further failure, up to
	// longestBackOff.
	firstBackOff   = time.Second
	longestBackOff = 15 * time.Second

	// leaseTime is how long an unanswered message is kept from all deliverers, by the database's clock. The lease is
	// renewed after leaseRenewal. If this process dies, the lease expires.
	leaseTime    = time.Minute
	leaseRenewal = 15 * time.Second
)

// backOff holds the queues that a Deliverer skips: those that failed, until their delay is over, and those that gave no
// answer twice, until they answer.
type backOff struct {
	m          sync.Mutex
	failed     map[string]*failure
	unanswered map[uuid.UUID]*unanswered

	// inHand has the messages of all batches. The database's locks on them end with the batch's connection, which
	// may close before the batch has their outcome.
	inHand map[uuid.UUID]bool
}

// failure is the back-off of one queue.
type failure struct {
	delay time.Duration
	until time.Time

	// unansweredTimes counts the times without an answer. After the first one, another queue on the same connection
	// may be the cause.
	unansweredTimes int
}

// unanswered is a message without a recorded outcome. Either it was sent on a connection that is still open, and the
// broker may confirm it; or it was confirmed, and the confirmation could not be written.
type unanswered struct {
	row    ledger.Outgoing
	answer answer
	leased time.Time // when the lease was last written, or found to be another deliverer's
}

// answer is a *celery.UnansweredError, or confirmed.
type answer interface {
	Answered() <-chan struct{}
	Result() error
}

// confirmed is the answer that the broker has a message.
type confirmed struct{}

func (confirmed) Answered() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (confirmed) Result() error { return nil }

func newBackOff() *backOff {
	return &backOff{failed: make(map[string]*failure), unanswered: make(map[uuid.UUID]*unanswered), inHand: make(map[uuid.UUID]bool)}
}

// queues returns the queues to skip at now; never nil.
func (p *backOff) queues(now time.Time) []string {
	p.m.Lock()
	defer p.m.Unlock()
	skip := []string{}
	for queue, f := range p.failed {
		if now.Before(f.until) {
			skip = append(skip, queue)
		}
	}
	for _, u := range p.unanswered {
		if f := p.failed[u.row.Queue]; f != nil && f.unansweredTimes > 1 && !slices.Contains(skip, u.row.Queue) {
			skip = append(skip, u.row.Queue)
		}
	}
	return skip
}

// silent records that a queue did not answer. The queue is tried once more, then skipped until it answers or its
// connection is lost.
func (p *backOff) silent(queue string, now time.Time) {
	p.m.Lock()
	defer p.m.Unlock()
	f := p.failed[queue]
	if f == nil {
		f = &failure{until: now}
		p.failed[queue] = f
	}
	if f.unansweredTimes++; f.unansweredTimes > 1 {
		f.delay = min(max(2*f.delay, firstBackOff), longestBackOff)
		f.until = now.Add(f.delay)
	}
}

// fail backs off from a queue. It returns the delay, and whether it is longer than before.
func (p *backOff) fail(queue string, now time.Time) (delay time.Duration, longer bool) {
	p.m.Lock()
	defer p.m.Unlock()
	f := p.failed[queue]
	switch {
	case f == nil:
		f, longer = &failure{delay: firstBackOff}, true
		p.failed[queue] = f
	case now.Before(f.until):
		return f.until.Sub(now), false // another batch has reported this failure
	case f.delay < longestBackOff:
		f.delay, longer = min(max(2*f.delay, firstBackOff), longestBackOff), true
	}
	f.until = now.Add(f.delay)
	return f.delay, longer
}

// works ends the back-off of a queue, and reports whether there was one.
func (p *backOff) works(queue string) bool {
	p.m.Lock()
	defer p.m.Unlock()
	_, failed := p.failed[queue]
	delete(p.failed, queue)
	return failed
}

// addUnanswered adds unanswered messages.
func (p *backOff) addUnanswered(rows []*unanswered) {
	p.m.Lock()
	defer p.m.Unlock()
	for _, u := range rows {
		p.unanswered[u.row.TaskID] = u
	}
}

// messages returns the ids of unanswered messages, which must not be read again; never nil.
func (p *backOff) messages() []uuid.UUID {
	p.m.Lock()
	defer p.m.Unlock()
	return slices.AppendSeq([]uuid.UUID{}, maps.Keys(p.unanswered))
}

// reserve reserves rows for a batch until release. It returns the rows without those of another batch and without
// unanswered messages: another batch may be about to write their outcome.
func (p *backOff) reserve(rows []ledger.Outgoing) []ledger.Outgoing {
	p.m.Lock()
	defer p.m.Unlock()
	rows = slices.DeleteFunc(rows, func(row ledger.Outgoing) bool { return p.inHand[row.TaskID] || p.unanswered[row.TaskID] != nil })
	for _, row := range rows {
		p.inHand[row.TaskID] = true
	}
	return rows
}

// release ends the reservation of rows.
func (p *backOff) release(rows []ledger.Outgoing) {
	p.m.Lock()
	defer p.m.Unlock()
	for _, row := range rows {
		delete(p.inHand, row.TaskID)
	}
}

// answers returns the messages that were answered since, and the others whose leases are due for renewal at now.
func (p *backOff) answers(now time.Time) (answered, renew []*unanswered) {
	p.m.Lock()
	defer p.m.Unlock()
	for _, u := range p.unanswered {
		select {
		case <-u.answer.Answered():
			answered = append(answered, u)
		default:
			if now.Sub(u.leased) >= leaseRenewal {
				renew = append(renew, u)
			}
		}
	}
	return answered, renew
}

// settled removes answered messages, and records that leases were renewed at now.
func (p *backOff) settled(answered, renewed []*unanswered, now time.Time) {
	p.m.Lock()
	defer p.m.Unlock()
	for _, u := range answered {
		delete(p.unanswered, u.row.TaskID)
	}
	for _, u := range renewed {
		u.leased = now
	}
}

// waiting returns the number of unanswered messages.
func (p *backOff) waiting() int {
	p.m.Lock()
	defer p.m.Unlock()
	return len(p.unanswered)
}
