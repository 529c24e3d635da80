package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

const (
	DefaultPrefix = "swh.journal.objects" // the Python scheduler's

	objectType = "origin_visit_status"
)

// Bounds of a batch.
const (
	minBatchLimit     = 10_000                 // records taken at once when they are at hand
	maxBatchBytes     = 32 << 20               // of values; one fetch may go beyond
	maxFetchBytes     = 8 << 20                // of one fetch, compressed; one batch of a producer may go beyond
	maxPartitionBytes = 64 << 10               // of one partition in it, too: a thousand records or more
	maxUnpackedBytes  = 32 << 20               // of one batch of a producer, decompressed
	maxFetches        = 4                      // on their way or waiting, of all brokers
	gatherWait        = 50 * time.Millisecond  // for more records after the first
	idleWait          = 500 * time.Millisecond // for a first record, before looking around
)

const (
	applyTimeout  = 5 * time.Minute  // of one try of a batch
	writeTimeout  = time.Minute      // of one transaction of it
	commitTimeout = 30 * time.Second // of the commit of its offsets
	askTimeout    = 10 * time.Second // of a request to Kafka
	lagInterval   = 15 * time.Second // between looks at the ends of partitions
	restartAfter  = 10 * time.Second // of nothing to read, as the Python scheduler waits
)

// EOF is what to do at the end of all partitions.
type EOF string

// What the key on_eof may say.
const (
	EOFContinue EOF = "continue" // wait for more
	EOFStop     EOF = "stop"     // end
	EOFRestart  EOF = "restart"  // begin again at the start
)

// Reset is where to begin in a partition for which the group has no offset.
type Reset string

// What the key auto_offset_reset may say.
const (
	Earliest Reset = "earliest"
	Latest   Reset = "latest"
)

// A Store keeps visit stats: a *db.Store, or a Store of tests.
type Store interface {
	// UpdateVisitStats changes the stats of the given origins in one
	// transaction; change may be called more than once.
	UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error
	// RejectRecords keeps where the records are that were set aside.
	RejectRecords(ctx context.Context, records []db.RejectedRecord) error
	// ReleasedVisits lists failed visits that were kept back and count now.
	ReleasedVisits(ctx context.Context, limit int) ([]ledger.HeldVisit, error)
}

// Options of a Client. Brokers, GroupID and Store are needed; the rest has the
// Python scheduler's defaults.
type Options struct {
	Brokers []string // host:port
	GroupID string
	Store   Store

	Prefix     string // of the topic; "" is DefaultPrefix
	Privileged bool   // prefer the topic <prefix>_privileged.origin_visit_status
	// CreateTopics creates the topic, with one partition and no copies, if it isn't there.
	CreateTopics bool
	// FailIfMissing has Run return an error if the topic isn't there; else it is waited for.
	FailIfMissing bool
	// BatchSize raises the bound of a batch if it is above 10,000 records, and has
	// no effect otherwise: a batch is what is at hand.
	BatchSize        int
	AutoOffsetReset  Reset // "" is Earliest
	OnEOF            EOF   // "" is EOFContinue
	StopAfterObjects int64 // end after so many records; 0 is never
	// ConsumerSettings are named as librdkafka names them; group.instance.id makes
	// this a static member of the group.
	ConsumerSettings map[string]string

	Rules    Rules
	Log      *slog.Logger          // nil is slog.Default()
	Registry prometheus.Registerer // nil: the metrics are not registered
	// Progress, if not nil, is called after each batch with the number of
	// records done with and of those known to be ahead.
	Progress func(processed, remaining int64)
}

// A Client is the daemon that keeps visit stats up to date.
type Client struct {
	o       Options
	kafka   []kgo.Opt // how to reach the brokers and to consume
	metrics *metrics
	decoder *decoder
	rejects service.LogLimit

	pulse      *service.Pulse
	kafkaState *service.Service

	restartAfter time.Duration // of nothing to read; a test has no time for it
	processed    int64
	trials       service.Backoff // of canApply
	nextTrial    time.Time
	size         bulk.BatchSize // of transactions
	heldSize     bulk.BatchSize // of those that count held visits
}

// New checks the options. Warnings name consumer settings that are not honoured;
// they and the error hold no password. Nothing is connected yet.
func New(o Options) (c *Client, warnings []string, err error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.AutoOffsetReset = cmp.Or(o.AutoOffsetReset, Earliest)
	o.OnEOF = cmp.Or(o.OnEOF, EOFContinue)
	o.Log = cmp.Or(o.Log, slog.Default())
	switch {
	case len(o.Brokers) == 0:
		err = errors.New("journal: no Kafka brokers are given (key journal.brokers)")
	case o.GroupID == "":
		err = errors.New("journal: no consumer group is given (key journal.group_id)")
	case o.Store == nil:
		err = errors.New("journal: no store is given")
	case o.BatchSize < 0:
		err = errors.New("journal: batch_size must be positive")
	case o.StopAfterObjects < 0:
		err = errors.New("journal: stop_after_objects must not be negative")
	case o.AutoOffsetReset != Earliest && o.AutoOffsetReset != Latest:
		err = fmt.Errorf("journal: auto_offset_reset is %q, not earliest or latest", o.AutoOffsetReset)
	case o.OnEOF != EOFContinue && o.OnEOF != EOFStop && o.OnEOF != EOFRestart:
		err = fmt.Errorf("journal: on_eof is %q, not continue, stop or restart", o.OnEOF)
	}
	if err != nil {
		return nil, nil, err
	}
	settings, warnings, err := translate(o.ConsumerSettings)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	if o.BatchSize > 0 && o.BatchSize < minBatchLimit {
		warnings = append(warnings, fmt.Sprintf("journal.batch_size has no effect below %d: a batch is what is at hand, which is faster; leave it out", minBatchLimit))
	}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID("swh-scheduler"),
		kgo.WithLogger(kafkaLog{o.Log}),
	}, settings...)
	if err := kgo.ValidateOpts(opts...); err != nil {
		return nil, nil, fmt.Errorf("journal: Kafka settings: %w", err)
	}
	return &Client{
		o:            o,
		kafka:        opts,
		metrics:      newMetrics(o.Registry, o.GroupID),
		decoder:      newDecoder(),
		kafkaState:   service.NewService(o.Log, "Kafka"),
		restartAfter: restartAfter,
	}, warnings, nil
}

// Run reads the journal until ctx ends, or the bounds of the options are reached,
// and returns how many records were processed, with those set aside or skipped.
// When ctx ends, the batch in hand is finished within the context of
// service.InFlight. Run may be called once.
func (c *Client) Run(ctx context.Context) (processed int64, err error) {
	client, err := kgo.NewClient(c.kafka...)
	if err != nil {
		return 0, fmt.Errorf("configure the Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)

	health := service.HealthOf(ctx)
	health.Watch(c.kafkaState)
	found := health.Expect("Kafka")
	c.pulse = health.Pulse(c.o.Log, "applying visits")
	defer c.pulse.Gone()
	topic, err := c.topic(ctx, admin)
	if err != nil {
		return 0, endedBy(ctx, err)
	}
	found()
	c.metrics.is(idle)
	defer c.metrics.is("")
	c.o.Log.Info("reading the journal", "topic", topic, "group", c.o.GroupID)
	var backoff service.Backoff
	for {
		before := c.processed
		err := c.stay(ctx, admin, topic)
		if _, stopped := errors.AsType[*stoppedError](err); err == nil || ctx.Err() != nil || stopped || hopeless(err) {
			return c.processed, endedBy(ctx, err)
		}
		c.kafkaState.Failed(c.refused(err, topic))
		if c.processed > before {
			backoff.Reset()
		}
		if backoff.Wait(ctx) != nil {
			return c.processed, nil
		}
	}
}

// endedBy returns nil if ctx has ended, else err.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// topic waits for Kafka, and for the topic unless that is to be an error, or to be created.
func (c *Client) topic(ctx context.Context, admin *kadm.Client) (string, error) {
	var backoff service.Backoff
	waiting := false
	for {
		c.pulse.Begin()
		askCtx, cancel := context.WithTimeout(ctx, askTimeout)
		topic, found, err := c.findTopic(askCtx, admin)
		if err == nil && !found && c.o.CreateTopics {
			err = c.createTopic(askCtx, admin, topic)
		}
		cancel()
		switch {
		case err != nil:
			c.kafkaState.Failed(c.refused(err, c.candidates()[0]))
		case found:
			c.kafkaState.OK()
			return topic, nil
		case c.o.CreateTopics: // brokers may not know of it yet
		case c.o.FailIfMissing:
			return "", errNoTopic(topic)
		default:
			c.kafkaState.OK()
			c.pulse.Done(service.DefaultMaxWait)
			if !waiting {
				waiting = true
				c.o.Log.Warn("waiting for the topic, which is not on the Kafka brokers yet; if it has another name, correct the key journal.prefix", "topic", topic)
			}
		}
		if err := backoff.Wait(ctx); err != nil {
			return "", err
		}
	}
}

// stay is one stay in the consumer group. It returns nil when the work is done
// or ctx has ended.
func (c *Client) stay(ctx context.Context, admin *kadm.Client, topic string) error {
	m, err := join(c.kafka, c.o.GroupID, topic, c.o.AutoOffsetReset, admin, c.metrics, c.o.Log)
	if err != nil {
		return err
	}
	defer m.leave()
	besideCtx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { c.watch(besideCtx, m) })
	beside.Go(func() { c.countHeld(besideCtx) })
	defer beside.Wait()
	defer stop()

	lastRecord, applied := time.Now(), true
	visits := 0 // in the last batch
	for ctx.Err() == nil && (c.o.StopAfterObjects == 0 || c.processed < c.o.StopAfterObjects) {
		c.pulse.Begin()
		c.metrics.is(waiting)
		b := newBatch(visits)
		if err := m.gather(ctx, c.limit(), func(r *kgo.Record) { c.decode(b, r) }); err != nil {
			return err
		}
		visits = len(b.visits)
		if len(b.first) > 0 {
			c.metrics.is(processing)
			if applied, err = c.process(ctx, m, b); err != nil {
				return err
			}
			c.metrics.is(idle)
			lastRecord = time.Now()
		} else if c.o.OnEOF != EOFContinue {
			done, err := c.atEOF(ctx, m, time.Since(lastRecord))
			if done || err != nil {
				return err
			}
		}
		m.client.AllowRebalance()
		if !applied && len(b.first) == 0 { // another member may have what was given up
			applied = c.canApply(ctx)
		}
		if applied {
			c.trials.Reset()
			c.pulse.Done(2 * idleWait)
		}
	}
	return nil
}

// watch keeps the lag up to date, also while the loop waits for the database,
// and notes whether Kafka answers.
func (c *Client) watch(ctx context.Context, m *member) {
	for service.Sleep(ctx, lagInterval) == nil {
		_ = c.refresh(ctx, m)
	}
}

func (c *Client) refresh(ctx context.Context, m *member) error {
	err := service.Within(ctx, askTimeout, m.refresh)
	switch {
	case err == nil:
		c.kafkaState.OK()
	case ctx.Err() == nil:
		c.kafkaState.Failed(err)
	}
	return err
}

// atEOF does what OnEOF says once all has been read. It is called when there has
// been nothing to read for the time idle; done is to stop.
func (c *Client) atEOF(ctx context.Context, m *member, idle time.Duration) (done bool, err error) {
	switch {
	case c.refresh(ctx, m) != nil: // it has been noted, and is asked again soon
	case c.o.OnEOF == EOFStop:
		if done = m.atEnd(); done {
			c.metrics.stops.Inc()
			err = m.stopped()
		}
	case idle >= c.restartAfter:
		err = m.restart(ctx)
	}
	return done, err
}

// limit returns how many records the next batch may hold.
func (c *Client) limit() int {
	limit := max(c.o.BatchSize, minBatchLimit)
	if c.o.StopAfterObjects > 0 {
		limit = int(min(int64(limit), c.o.StopAfterObjects-c.processed))
	}
	return limit
}

// process applies a batch and commits its offsets. applied is false if it was given up for
// a rebalance that waits. It returns an error only when ctx has ended before the batch could
// be applied.
func (c *Client) process(ctx context.Context, m *member, b *batch) (applied bool, err error) {
	start := time.Now()
	applied, err = c.apply(ctx, m, b)
	if err != nil {
		return false, err
	}
	if !applied {
		m.seek(b.first)
		return false, nil
	}
	commitCtx, cancel := context.WithTimeout(service.InFlight(ctx), commitTimeout)
	defer cancel()
	c.kafkaState.Tried(m.commit(commitCtx, b.next))
	c.account(b, time.Since(start))
	if c.o.Progress != nil {
		c.o.Progress(c.processed, m.remaining())
	}
	return true, nil
}

// apply writes the batch to the database, trying until that succeeds. applied is
// false if it was given up for a rebalance that waits.
func (c *Client) apply(ctx context.Context, m *member, b *batch) (applied bool, err error) {
	work := service.InFlight(ctx)
	var backoff service.Backoff
	for {
		c.pulse.Begin()
		err := service.Within(work, applyTimeout, func(ctx context.Context) error { return b.write(ctx, c.o.Store, c.o.Rules, &c.size) })
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil { // no time to wait for the database
			return false, ctx.Err()
		}
		c.pulse.Failed(err)
		select {
		case <-time.After(backoff.Next()):
		case <-m.rebalanceWaits:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// canApply reports whether visits could be applied: it updates the stats of no origin. After a
// failure it reports false, without a try, until the back-off has passed.
func (c *Client) canApply(ctx context.Context) bool {
	if time.Now().Before(c.nextTrial) {
		return false
	}
	err := service.Within(ctx, writeTimeout, func(ctx context.Context) error {
		return c.o.Store.UpdateVisitStats(ctx, []model.OriginKey{{}}, func(ledger.KnownVisits) ledger.VisitChanges { return ledger.VisitChanges{} })
	})
	if err != nil {
		c.nextTrial = time.Now().Add(c.trials.Next())
	}
	return err == nil
}

// decode adds what a record says to a batch, which keeps nothing else of it: of a large
// lag, records take more memory than their visits. Marks of transactions and records without
// a value are no messages to the Python scheduler, and are not counted.
func (c *Client) decode(b *batch, r *kgo.Record) {
	b.reach(r)
	if r.Attrs.IsControl() || r.Value == nil {
		return
	}
	b.records++
	from := place{r.Topic, r.Partition, r.Offset}
	var visit Visit
	var final bool
	err := service.Recover(func() (err error) {
		visit, final, err = c.decoder.decode(r.Value)
		return err
	})
	rejected, ok := errors.AsType[*RejectError](err)
	fault, panicked := errors.AsType[*service.PanicError](err)
	switch {
	case panicked:
		b.faults = append(b.faults, fault)
		b.undecoded = append(b.undecoded, rejection(from, reject(KindPanic, "%s", fault)))
	case ok:
		b.undecoded = append(b.undecoded, rejection(from, rejected))
	case final:
		b.visits = append(b.visits, visit)
		b.from = append(b.from, from)
	default:
		b.skipped++
	}
}

// account counts a batch that is done with.
func (c *Client) account(b *batch, took time.Duration) {
	c.processed += int64(b.records)
	c.metrics.handled.Add(float64(b.records))
	rejected := slices.Concat(b.undecoded, b.refused)
	visits := b.records - b.skipped - len(b.undecoded)
	for outcome, n := range map[string]int{
		outcomeApplied: b.applied.Total(), outcomeIgnored: visits - b.applied.Total() - len(b.refused),
		outcomeSkipped: b.skipped, outcomeRejected: len(rejected),
	} {
		c.metrics.records.WithLabelValues(outcome).Add(float64(n))
	}
	c.metrics.visits(b.applied)
	c.metrics.batchSeconds.Observe(took.Seconds())
	c.metrics.batchRecords.Observe(float64(b.records))
	for _, fault := range b.faults {
		if held, ok := c.rejects.Log("fault"); ok {
			c.o.Log.Error("a journal record met a fault of the program and is set aside; please report the fault",
				"error", fault, "stack", string(fault.Stack), "unlogged", held)
		}
	}
	for _, u := range b.unkept {
		c.o.Log.Error("a rejected record is not kept", "topic", u.record.Topic, "partition", u.record.Partition, "offset", u.record.Offset, "error", u.reason)
	}
	for _, r := range rejected {
		c.metrics.rejected.WithLabelValues(r.Kind).Inc()
		if held, ok := c.rejects.Log(r.Kind); ok {
			c.o.Log.Warn("journal record set aside", "kind", r.Kind, "detail", r.Detail,
				"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "unlogged", held)
		}
	}
}
