package held

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

const queue = "q"

// statsAge is the largest age of the broker's statistics: moments O are that much before the query.
const statsAge = 12 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// claimWith claims the messages that take returns for the number of free slots.
func claimWith(ctx context.Context, slots *dispatch.Slots, q dispatch.Queue, take func(ctx context.Context, tx *db.Tx, free int) ([]ledger.Work, error)) (int, error) {
	c, err := slots.Open(ctx, q)
	if err != nil {
		return 0, err
	}
	work, err := take(ctx, c.Tx, c.Free)
	return c.Commit(ctx, work, err)
}

// figures are the broker's figures of the queue.
type figures struct{ ready, unacked, consumers int }

// statistics simulates the management API.
type statistics struct {
	age       time.Duration // their largest age
	says      atomic.Pointer[figures]
	inspector *celery.QueueInspector
}

func newStatistics(t *testing.T, age time.Duration) *statistics {
	s := &statistics{age: age}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := s.says.Load()
		consumers := slices.Repeat([]string{`{"ack_required": true, "prefetch_count": 1}`}, f.consumers)
		_, _ = fmt.Fprintf(w, `{"type": "quorum", "messages_ready": %d, "messages_unacknowledged": %d, "consumer_details": [%s]}`, f.ready, f.unacked, strings.Join(consumers, ", "))
	}))
	t.Cleanup(api.Close)
	s.inspector = celery.NewQueueInspector(celery.Broker{}, api.URL, celery.InspectorOptions{Logger: quiet, StatsAge: age})
	t.Cleanup(func() { _ = s.inspector.Close() })
	return s
}

// ask returns figures for a query at a moment.
func (s *statistics) ask(ctx context.Context, f figures, asked time.Time) celery.QueueFigures {
	s.says.Store(&f)
	answer := s.inspector.Figures(ctx, queue)
	answer.Asked = asked
	return answer
}

// process claims and delivers, on a store of its own.
type process struct {
	t     *testing.T
	n     int
	store *db.Store
	wire  *wire
	admin testenv.Session
	stats *statistics

	// Of its present life.
	deliverer *dispatch.Deliverer
	slots     *dispatch.Slots
	publisher *publisher
	claim     *claim
	batches   []*delivery // at most two: the first is at its queue or sends, the second waits for it
	late      map[int]func(error)
	silent    bool // its queue didn't answer, and no message was confirmed since
}

func newProcess(t *testing.T, n int, dsn string, admin testenv.Session, stats *statistics) *process {
	p := &process{t: t, n: n, wire: newWire(), admin: admin, stats: stats}
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	p.store = testenv.Open(t, dsn+separator+"sslmode=disable", postgres.Options{Command: p.name(), Proxy: p.wire.through()})
	p.begin()
	return p
}

func (p *process) name() string { return fmt.Sprint("process ", p.n) }

// begin begins a life, without memory of the one before.
func (p *process) begin() {
	p.publisher = &publisher{calls: make(chan *call), dead: make(chan struct{})}
	p.deliverer = dispatch.NewDeliverer(p.store, p.publisher, quiet, nil)
	p.slots = dispatch.NewSlots(p.store, observer{p}, func() {})
	p.claim, p.batches, p.late, p.silent = nil, nil, make(map[int]func(error)), false
}

// cut ends the connections to the database, and with them claims and the transactions of batches.
func (p *process) cut() {
	const mine = " from pg_stat_activity where datname = current_database() and application_name = $1"
	name := "swh-scheduler " + p.name()
	testenv.Exec(p.t, p.admin, "select pg_terminate_backend(pid)"+mine, name)
	testenv.Becomes(p.t, "connections of a process that lost the database", 0, func() int {
		return testenv.Value[int](p.t, p.admin, "select count(*)"+mine, name)
	})
	if p.claim != nil {
		p.claim.end()
		<-p.claim.done
		p.claim = nil
	}
	for _, b := range p.batches {
		b.cut = true
	}
	p.store.Pool().Reset()
}

// idle reports whether the process has no claim and no batch.
func (p *process) idle() bool { return p.claim == nil && len(p.batches)+len(p.late) == 0 }

// passesBy reports whether a waiting batch skips rows that the batch before it holds. If their connection were lost
// now, the waiting batch might send them or not, depending on timing.
func (p *process) passesBy() bool {
	return slices.ContainsFunc(p.batches, func(d *delivery) bool { return len(d.blocked) > 0 })
}

// die ends the life.
func (p *process) die() {
	p.cut()
	close(p.publisher.dead)
	for _, b := range p.batches {
		<-b.done
	}
	for _, answer := range p.late {
		answer(celery.ErrUnconfirmed)
	}
	p.store.Pool().Reset()
}

// publisher simulates the broker for deliveries.
type publisher struct {
	calls chan *call
	dead  chan struct{} // closed when its process dies
}

// call is a batch's call that waits for the test.
type call struct {
	ids    []string // nil: the queue is declared
	answer chan []error
}

func (p *publisher) DeclareQueue(context.Context, string) error {
	p.ask(&call{answer: make(chan []error, 1)})
	return nil
}

func (p *publisher) Publish(_ context.Context, messages []celery.TaskMessage) []error {
	c := &call{ids: make([]string, len(messages)), answer: make(chan []error, 1)}
	for i, m := range messages {
		c.ids[i] = m.ID
	}
	if errs := p.ask(c); errs != nil {
		return errs
	}
	return slices.Repeat([]error{celery.ErrUnconfirmed}, len(messages))
}

func (p *publisher) ask(c *call) []error {
	select {
	case p.calls <- c:
	case <-p.dead:
		return nil
	}
	select {
	case errs := <-c.answer:
		return errs
	case <-p.dead:
		return nil
	}
}

// delivery is a batch in progress.
type delivery struct {
	rows    []int // of the model, that it holds
	blocked []int // rows that it has locked and skipped, as another batch holds them
	call    *call // nil: it waits for the batch before
	sent    bool
	outcome map[int]error // known results by row
	cut     bool          // its transaction is gone
	done    chan struct{}
	err     error // once done
}

// drain makes the process read a batch, and waits until the batch is at its queue, waits for the one before, or has
// ended.
func (p *process) drain() *delivery {
	d := &delivery{outcome: make(map[int]error), done: make(chan struct{})}
	before, open := p.wire.ended(), 1
	for _, b := range p.batches {
		if !b.cut {
			open++
		}
	}
	if p.claim != nil && p.claim.free != nil {
		open++
	}
	go func() {
		_, d.err = p.deliverer.Drain(context.Background())
		close(d.done)
	}()
	if len(p.batches) > 0 {
		p.wire.rest(before+2, open)
		return d
	}
	p.await(d)
	if d.call != nil {
		p.wire.rest(before+2, open)
	}
	return d
}

// await waits until a batch is at its queue or has ended.
func (p *process) await(d *delivery) {
	select {
	case d.call = <-p.publisher.calls:
	case <-d.done:
	}
}

// claim is a claim in progress.
type claim struct {
	next chan claimStep
	free *int // the number of slots, once counted
	done chan struct{}
	err  error // once done
	o, d time.Time
	seen chan struct{}
	stop context.CancelFunc
}

// claimStep lets a claim continue.
type claimStep struct {
	figures
	after time.Time // what was recorded before is before the moment
	work  []ledger.Work
}

// end ends a claim, whose process has lost the database.
func (c *claim) end() {
	c.stop()
	close(c.next)
}

var errEnds = errors.New("the process has lost its database")

// begins begins a claim.
func (p *process) begins(limit int64, after time.Time) {
	ctx, stop := context.WithCancel(context.Background())
	c := &claim{next: make(chan claimStep), done: make(chan struct{}), seen: make(chan struct{}), stop: stop}
	p.claim = c
	go func() {
		defer stop()
		_, c.err = claimWith(ctx, p.slots, dispatch.Queue{Name: queue, Limit: &limit}, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
			c.free = &free
			select {
			case c.seen <- struct{}{}:
			case <-ctx.Done():
			}
			step, ok := <-c.next
			if !ok {
				return nil, errEnds
			}
			return step.work, nil
		})
		close(c.done)
	}()
	p.goOn(claimStep{after: after})
}

// goOn lets the claim take a step, and waits for it.
func (p *process) goOn(step claimStep) {
	p.claim.next <- step
	select {
	case <-p.claim.seen:
	case <-p.claim.done:
	}
}

// observer simulates the broker for claims.
type observer struct{ *process }

func (o observer) Observe(ctx context.Context, now func() time.Time, _ []string, _ bool) map[string]celery.Observation {
	c := o.claim
	next := func() (claimStep, bool) { step, ok := <-c.next; return step, ok }
	lost := map[string]celery.Observation{queue: {Err: errEnds, Asked: now()}}
	done := func() { // a moment, when it was asked for
		select {
		case c.seen <- struct{}{}:
		case <-ctx.Done():
		}
	}
	step, ok := next()
	if !ok {
		return lost
	}
	c.o = later(now, step.after)
	done()
	if step, ok = next(); !ok {
		return lost
	}
	observed := celery.Observation{Figures: o.stats.ask(ctx, step.figures, c.o.Add(statsAge)), Exists: true}
	done()
	if step, ok = next(); !ok {
		return lost
	}
	c.d = later(now, step.after)
	observed.Asked = c.d
	done()
	if step, ok = next(); !ok {
		return lost
	}
	observed.Ready, observed.Consumers = step.ready, step.consumers
	done()
	if _, ok = next(); !ok {
		return lost
	}
	return map[string]celery.Observation{queue: observed}
}

// later returns the time once it is after a moment: the clock of claims is a lower bound of the database's.
func later(now func() time.Time, after time.Time) time.Time {
	for {
		if at := now().Truncate(time.Microsecond); at.After(after) {
			return at
		}
		time.Sleep(20 * time.Microsecond)
	}
}
