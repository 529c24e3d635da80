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

// These bound a batch.
const (
	minBatchLimit     = 10_000                 // the least bound of records in a batch
	maxBatchBytes     = 32 << 20               // of values; the last fetch may exceed it
	maxFetchBytes     = 8 << 20                // of a fetch, compressed; a single producer batch may exceed it
	maxPartitionBytes = 64 << 10               // of one partition in a fetch: a thousand records or more
	maxUnpackedBytes  = 32 << 20               // of a producer batch, decompressed
	maxFetches        = 4                      // in flight or buffered, over all brokers
	gatherWait        = 50 * time.Millisecond  // for further records
	idleWait          = 500 * time.Millisecond // for a first record
)

const (
	applyTimeout  = 5 * time.Minute  // of a try to write a batch
	writeTimeout  = time.Minute      // of each of its transactions
	commitTimeout = 30 * time.Second // of the commit of a batch's offsets
	askTimeout    = 10 * time.Second // of a request to Kafka
	lagInterval   = 15 * time.Second // between two reads of the partitions' ends
	restartAfter  = 10 * time.Second // without records, as in the Python scheduler
)

// EOF is the action at the end of all partitions.
type EOF string

// These are the values of the key on_eof.
const (
	EOFContinue EOF = "continue" // wait for further records
	EOFStop     EOF = "stop"     // end
	EOFRestart  EOF = "restart"  // read from the start again
)

// Reset is the start in a partition without a committed offset.
type Reset string

// These are the values of the key auto_offset_reset.
const (
	Earliest Reset = "earliest"
	Latest   Reset = "latest"
)

// A Store writes visit stats: a *db.Store, or a Store of tests.
type Store interface {
	// UpdateVisitStats changes the stats of the origins in one transaction. It may call change more than
	// once.
	UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error
	// RejectRecords stores the places of records that are set aside.
	RejectRecords(ctx context.Context, records []db.RejectedRecord) error
	// ReleasedVisits lists held failed visits that count now.
	ReleasedVisits(ctx context.Context, limit int) ([]ledger.HeldVisit, error)
}

// Options configure a Client. Brokers, GroupID and Store are required; the other fields default as in the
// Python scheduler.
type Options struct {
	Brokers []string // host:port
	GroupID string
	Store   Store

	Prefix     string // of the topic; "" is DefaultPrefix
	Privileged bool   // prefer the topic <prefix>_privileged.origin_visit_status
	// CreateTopics creates a missing topic, with one partition and no replicas.
	CreateTopics bool
	// FailIfMissing makes Run return an error for a missing topic. Otherwise Run waits for it.
	FailIfMissing bool
	// BatchSize raises the bound of records in a batch if it is above 10,000. Otherwise it has no effect: a
	// batch is the set of available records.
	BatchSize        int
	AutoOffsetReset  Reset // "" is Earliest
	OnEOF            EOF   // "" is EOFContinue
	StopAfterObjects int64 // end after that many records; 0: never
	// ConsumerSettings have librdkafka's names. group.instance.id makes this a static member of the group.
	ConsumerSettings map[string]string

	Rules    Rules
	Log      *slog.Logger          // nil is slog.Default()
	Registry prometheus.Registerer // nil: the metrics are not registered
	// Progress, if not nil, is called after each batch with the numbers of processed records and of unread
	// ones, by the last known ends.
	Progress func(processed, remaining int64)
}

// A Client is the daemon that updates visit stats.
type Client struct {
	o       Options
	kafka   []kgo.Opt // options of the connection and of consuming
	metrics *metrics
	decoder *decoder
	rejects service.LogLimit

	pulse      *service.Pulse
	kafkaState *service.Service

	restartAfter time.Duration // without records; tests set it shorter
	processed    int64
	trials       service.Backoff // of canApply
	nextTrial    time.Time
	size         bulk.BatchSize // of batches written
	heldSize     bulk.BatchSize // of held visits counted
}

// New checks the options. Warnings name consumer settings that have no effect. Neither warnings nor the
// error contain a password. New connects to nothing.
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

// Run reads the journal until ctx ends or the options' bounds are reached. It returns the number of
// processed records, including those set aside or skipped. After ctx ends, Run finishes the current batch
// within the context of service.InFlight. Run may be called once.
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
	defer c.pulse.Remove()
	topic, err := c.topic(ctx, admin)
	if err != nil {
		return 0, endedBy(ctx, err)
	}
	found()
	c.metrics.setStatus(idle)
	defer c.metrics.setStatus("")
	c.o.Log.Info("reading the journal", "topic", topic, "group", c.o.GroupID)
	var backoff service.Backoff
	for {
		before := c.processed
		err := c.stay(ctx, admin, topic)
		if _, stopped := errors.AsType[*stoppedError](err); err == nil || ctx.Err() != nil || stopped || permanent(err) {
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

// topic waits for Kafka, and for the topic unless a missing topic is an error or is created.
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
		case c.o.CreateTopics: // brokers may not report it yet
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

// readsAll reports whether the settings ask for records of open and aborted transactions, too.
func (c *Client) readsAll() bool {
	level, err := isolation(c.o.ConsumerSettings["isolation.level"])
	return err == nil && level == kgo.ReadUncommitted()
}

// stay is one stay in the consumer group. It returns nil at the options' bounds or after ctx has ended.
func (c *Client) stay(ctx context.Context, admin *kadm.Client, topic string) error {
	m, err := join(c.kafka, c.o.GroupID, topic, c.o.AutoOffsetReset, c.readsAll(), admin, c.metrics, c.o.Log)
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
	visits := 0 // of the last batch
	for ctx.Err() == nil && (c.o.StopAfterObjects == 0 || c.processed < c.o.StopAfterObjects) {
		c.pulse.Begin()
		c.metrics.setStatus(waiting)
		b := newBatch(visits)
		if err := m.gather(ctx, c.limit(), func(r *kgo.Record) { c.decode(b, r) }); err != nil {
			return err
		}
		visits = len(b.visits)
		if len(b.first) > 0 {
			c.metrics.setStatus(processing)
			if applied, err = c.process(ctx, m, b); err != nil {
				return err
			}
			c.metrics.setStatus(idle)
			lastRecord = time.Now()
		} else if c.o.OnEOF != EOFContinue {
			done, err := c.atEOF(ctx, m, time.Since(lastRecord))
			if done || err != nil {
				return err
			}
		}
		m.client.AllowRebalance()
		if !applied && len(b.first) == 0 { // another member may have the records that were given up
			applied = c.canApply(ctx)
		}
		if applied {
			c.trials.Reset()
			c.pulse.Done(2 * idleWait)
		}
	}
	return nil
}

// watch updates the lag, also while the loop waits for the database, and records whether Kafka answers.
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

// atEOF acts as OnEOF says once all is read. idle is the time without records. done is whether to end.
func (c *Client) atEOF(ctx context.Context, m *member, idle time.Duration) (done bool, err error) {
	switch {
	case c.refresh(ctx, m) != nil: // the error is recorded, and the next call tries again soon
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

// limit returns the bound of records in the next batch.
func (c *Client) limit() int {
	limit := max(c.o.BatchSize, minBatchLimit)
	if c.o.StopAfterObjects > 0 {
		limit = int(min(int64(limit), c.o.StopAfterObjects-c.processed))
	}
	return limit
}

// process applies a batch and commits its offsets. applied is false if the batch was given up for a waiting
// rebalance. It returns an error only if ctx has ended before the batch was applied.
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

// apply writes the batch to the database, and retries until it succeeds. applied is false if the batch was
// given up for a waiting rebalance.
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

// canApply reports whether the database accepts an update of visit stats, of no origin. After a failure it
// returns false without a try until the back-off has passed.
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

// decode adds a record's visit to the batch and keeps nothing else: with a large lag, records take more
// memory than visits. Transaction markers and records without a value don't count: they are no messages in
// the Python scheduler.
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

// account adds a finished batch to the metrics.
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
	for _, u := range b.unstored {
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
