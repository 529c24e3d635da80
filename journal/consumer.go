package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member is one stay in the consumer group. Only the loop's goroutine and the client's callbacks use it.
// From a poll to AllowRebalance, the member keeps its partitions.
type member struct {
	client  *kgo.Client
	admin   *kadm.Client
	topic   string
	reset   Reset
	all     bool // also records of open and aborted transactions
	metrics *metrics
	log     *slog.Logger

	// rebalanceWaits has an element after a rebalance has waited for AllowRebalance. That rebalance may be
	// over.
	rebalanceWaits chan struct{}

	mu         sync.Mutex
	partitions map[int32]*progress // the assigned partitions
}

// progress is the progress in a partition.
type progress struct {
	next int64 // offset of the next record
	read int64 // offset after the last record that a fetch returned
	end  int64 // offset after the last record, by the last fetch or request
	eof  bool  // the end was reached once
	stop error // not nil: the reason why the client has stopped reading it
}

func (p *progress) lag() int64 { return max(0, p.end-p.next) }

func join(opts []kgo.Opt, group, topic string, reset Reset, all bool, admin *kadm.Client, metrics *metrics, log *slog.Logger) (*member, error) {
	m := &member{
		admin: admin, topic: topic, reset: reset, all: all, metrics: metrics, log: log,
		rebalanceWaits: make(chan struct{}, 1),
		partitions:     make(map[int32]*progress),
	}
	offset := kgo.NewOffset().AtStart()
	if reset == Latest {
		offset = kgo.NewOffset().AtEnd()
	}
	base := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(offset),
		// These are librdkafka's defaults, so that Python and Go members can share a group.
		kgo.Balancers(kgo.RangeBalancer(), kgo.RoundRobinBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.HeartbeatInterval(defaultHeartbeat),
		kgo.FetchMaxWait(500 * time.Millisecond),
		// The client's default would be 50 MiB per broker.
		kgo.FetchMaxBytes(maxFetchBytes),
		kgo.FetchMaxPartitionBytes(maxPartitionBytes),
		kgo.MaxConcurrentFetches(maxFetches),
		kgo.MaxDecompressBatchBytes(maxUnpackedBytes),
	}
	own := []kgo.Opt{
		// Transaction markers take offsets, too. Without them, the end of a partition would look like
		// records still to come.
		kgo.KeepControlRecords(),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.assigned),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			client.ResumeFetchPartitions(assigned) // those that an earlier assignment stopped
		}),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.revoked),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {
			select {
			case m.rebalanceWaits <- struct{}{}:
			default:
			}
		}),
	}
	client, err := kgo.NewClient(append(append(base, opts...), own...)...)
	if err != nil {
		return nil, fmt.Errorf("configure the Kafka consumer: %w", err)
	}
	m.client = client
	return m, nil
}

// leaveWait bounds the time to leave the group. The group removes a member that doesn't leave in time after
// its session timeout.
const leaveWait = 5 * time.Second

// leave ends the stay. A static member keeps its partitions for its next start.
func (m *member) leave() {
	m.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	if err := m.client.LeaveGroupContext(ctx); err != nil {
		m.log.Debug("the consumer group was not left in order", "error", err)
	}
	m.client.Close()
	m.revoked(ctx, m.client, nil)
}

// assigned returns the start offset of each partition, from the group's committed offsets.
func (m *member) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	starts, err := m.admin.ListStartOffsets(ctx, m.topic)
	if err != nil {
		return nil, err
	}
	ends, err := m.ends(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for partition, offset := range offsets[m.topic] {
		start, ok := starts.Lookup(m.topic, partition)
		if !ok || start.Err != nil {
			return nil, fmt.Errorf("the start of partition %d is not known: %w", partition, start.Err)
		}
		end, ok := ends[partition]
		if !ok {
			return nil, fmt.Errorf("the end of partition %d is not known", partition)
		}
		next := offset.EpochOffset().Offset
		if next < start.Offset || next > end {
			// Nothing is committed, or the committed offset no longer exists.
			if next = start.Offset; m.reset == Latest {
				next = end
			}
			offsets[m.topic][partition] = kgo.NewOffset().At(next)
		}
		m.partitions[partition] = &progress{next: next, read: next, end: end}
		m.metrics.setLag(partition, end-next)
	}
	m.log.Info("partitions assigned", "topic", m.topic, "partitions", len(offsets[m.topic]))
	return offsets, nil
}

// revoked removes all partitions: the balancers revoke all of them at once.
func (m *member) revoked(context.Context, *kgo.Client, map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.metrics.lag.Reset()
	clear(m.partitions)
}

// ends returns the offsets after the last readable records.
func (m *member) ends(ctx context.Context) (map[int32]int64, error) {
	list := m.admin.ListCommittedOffsets
	if m.all {
		list = m.admin.ListEndOffsets
	}
	listed, err := list(ctx, m.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the end offsets of %s: %w", m.topic, err)
	}
	ends := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

// refresh reads the ends of all partitions, for the lag and the end of file.
func (m *member) refresh(ctx context.Context) error {
	ends, err := m.ends(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for partition, p := range m.partitions {
		if end, ok := ends[partition]; ok {
			p.end = end
			p.eof = p.eof || p.next >= p.end
			m.metrics.setLag(partition, p.lag())
		}
	}
	return nil
}

// gather calls take with available records, up to limit. It waits idleWait for a first record, then at most
// gatherWait for more. After it, a rebalance waits for AllowRebalance, also after an error.
func (m *member) gather(ctx context.Context, limit int, take func(*kgo.Record)) error {
	n, size := 0, 0
	wait, deadline := idleWait, time.Time{}
	for n < limit && size < maxBatchBytes {
		pollCtx, cancel := context.WithTimeout(ctx, wait)
		fetches := m.client.PollRecords(pollCtx, limit-n)
		cancel()
		for record := range fetches.RecordsAll() {
			take(record)
			n++
			size += len(record.Value)
		}
		m.noteEnds(fetches)
		if err := m.failure(fetches, n == limit); err != nil {
			return err
		}
		if n == 0 || ctx.Err() != nil {
			break
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(gatherWait)
		}
		if wait = time.Until(deadline); wait <= 0 {
			break
		}
	}
	return nil
}

// noteEnds records the ends of partitions from a fetch.
func (m *member) noteEnds(fetches kgo.Fetches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := m.partitions[f.Partition]; p != nil && len(f.Records) > 0 {
			p.read = f.Records[len(f.Records)-1].Offset + 1
			end := f.LastStableOffset
			if m.all {
				end = f.HighWatermark
			}
			p.end = max(p.end, end)
		}
	})
}

// failure returns the first error of a poll that ends the stay. The client recovers from the others itself,
// and doesn't report lost connections. cut is whether the poll may have left records of a fetch for the next one, which then has
// the fetch's errors again.
func (m *member) failure(fetches kgo.Fetches, cut bool) error {
	var failure error
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		_, lost := errors.AsType[*kgo.ErrDataLoss](f.Err)
		large, tooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](f.Err)
		switch {
		case f.Err == nil:
		case tooLarge:
			m.stop(f.Partition, func(int64) error {
				return fmt.Errorf("the batch at offset %d decompresses to more than %d MiB; "+
					"to leave it out, stop all members of the group and set its offset of this partition to %d",
					large.Offset, maxUnpackedBytes>>20, large.NextOffset)
			})
		case errors.Is(f.Err, context.DeadlineExceeded), errors.Is(f.Err, context.Canceled):
		case lost:
			m.log.Warn("Kafka lost records that were read before; reading on from what is left", "error", f.Err)
		case isDamaged(f) && cut:
		case isDamaged(f):
			m.client.PauseFetchPartitions(map[string][]int32{m.topic: {f.Partition}})
			m.stop(f.Partition, func(read int64) error {
				return fmt.Errorf("the batch at offset %d is damaged (%w); "+
					"to leave it out, stop all members of the group and set its offset of this partition after it", read, f.Err)
			})
		case failure == nil:
			failure = f.Err
		}
	})
	return failure
}

// isDamaged reports whether the broker sent records that can't be read, such as after a fault of its disk. Other errors
// are the broker's own, or come without the answer of a broker.
func isDamaged(f kgo.FetchTopicPartition) bool {
	_, answered := errors.AsType[*kerr.Error](f.Err)
	return !answered && f.HighWatermark > 0
}

// A stoppedError reports a partition that the client has stopped reading.
type stoppedError struct {
	topic     string
	partition int32
	why       error
}

func (e *stoppedError) Error() string {
	return fmt.Sprintf("partition %d of %s is read no further: %s", e.partition, e.topic, e.why)
}

func (e *stoppedError) Unwrap() error { return e.why }

// stop records that the client has stopped reading a partition. why gets the offset up to which it was read. The
// other partitions go on.
func (m *member) stop(partition int32, why func(read int64) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.partitions[partition]
	if p == nil || p.stop != nil { // a fetch that was under way repeats the error
		return
	}
	p.stop = &stoppedError{m.topic, partition, why(p.read)}
	m.log.Error("a partition is read no further", "topic", m.topic, "partition", partition, "error", p.stop)
}

// stopped returns the error of a stopped partition; nil if there is none.
func (m *member) stopped() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.partitions {
		if p.stop != nil {
			return p.stop
		}
	}
	return nil
}

// permanent reports whether err is the group's refusal of this member, which a retry can't overcome.
func permanent(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.FencedInstanceID, kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout, kerr.InvalidGroupID,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}

// seek continues at the offsets, in this member or in the one that gets the partitions.
func (m *member) seek(offsets map[int32]kgo.EpochOffset) {
	m.client.ResumeFetchPartitions(map[string][]int32{m.topic: slices.Collect(maps.Keys(offsets))})
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.topic: offsets})
	m.moveTo(offsets, true)
}

// moveTo sets the next offsets of partitions. again is whether they are before the partitions' ends.
func (m *member) moveTo(offsets map[int32]kgo.EpochOffset, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for partition, offset := range offsets {
		if p := m.partitions[partition]; p != nil {
			p.next, p.eof = offset.Offset, p.eof && !again
			if again {
				p.read, p.stop = offset.Offset, nil
			}
			m.metrics.setLag(partition, p.lag())
		}
	}
}

// commit commits that the records before the offsets are processed. If it fails, the next commit covers
// them too, or they are read again.
func (m *member) commit(ctx context.Context, done map[int32]kgo.EpochOffset) error {
	m.moveTo(done, false)
	var failure error
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: done},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			if failure = err; err != nil {
				return
			}
			for _, t := range response.Topics {
				for _, p := range t.Partitions {
					failure = errors.Join(failure, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	if failure != nil {
		return fmt.Errorf("commit offsets of %s: %w", m.topic, failure)
	}
	return nil
}

// remaining returns the number of unread records, by the last known ends.
func (m *member) remaining() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for _, p := range m.partitions {
		n += p.lag()
	}
	return n
}

// atEnd reports whether every partition has been read to its end once, or is stopped. A member without
// partitions is not at the end: it may get some.
func (m *member) atEnd() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := len(m.partitions) > 0
	for _, p := range m.partitions {
		ended = ended && (p.eof || p.stop != nil)
	}
	return ended
}

// restart reads partitions that are at their end from their start again.
func (m *member) restart(ctx context.Context) error {
	starts, err := m.admin.ListStartOffsets(ctx, m.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("list the start offsets of %s: %w", m.topic, err)
	}
	again := make(map[int32]kgo.EpochOffset)
	m.mu.Lock()
	for partition, p := range m.partitions {
		if start, ok := starts.Lookup(m.topic, partition); ok && p.eof && start.Offset < p.next {
			again[partition] = kgo.EpochOffset{Epoch: -1, Offset: start.Offset}
		}
	}
	m.mu.Unlock()
	if len(again) > 0 {
		m.log.Info("reading partitions from their start again", "partitions", len(again))
		m.metrics.restarts.Add(float64(len(again)))
		m.seek(again)
	}
	return nil
}

// candidates returns the topics in order of preference. The client reads the first that exists.
func (c *Client) candidates() []string {
	candidates := []string{c.o.Prefix + "." + objectType}
	if c.o.Privileged {
		candidates = []string{c.o.Prefix + "_privileged." + objectType, candidates[0]}
	}
	if c.o.CreateTopics {
		candidates = candidates[:1]
	}
	return candidates
}

// findTopic returns the topic to read: the privileged one if it is configured and exists, else the plain
// one. found is false if there is none. With CreateTopics only the first counts, as in the Python
// scheduler.
func (c *Client) findTopic(ctx context.Context, admin *kadm.Client) (topic string, found bool, err error) {
	candidates := c.candidates()
	details, err := admin.ListTopics(ctx, candidates...)
	if err != nil {
		return "", false, err
	}
	for _, candidate := range candidates {
		detail := details[candidate]
		switch {
		case errors.Is(detail.Err, kerr.UnknownTopicOrPartition), !details.Has(candidate) && detail.Err == nil:
		case detail.Err != nil:
			return "", false, fmt.Errorf("topic %s: %w", candidate, detail.Err)
		default:
			return candidate, true, nil
		}
	}
	return candidates[0], false, nil
}

// createTopic creates a topic as the Python scheduler does. Brokers report it a moment later.
func (c *Client) createTopic(ctx context.Context, admin *kadm.Client, topic string) error {
	_, err := admin.CreateTopic(ctx, 1, 1, nil, topic)
	switch {
	case err == nil:
		c.o.Log.Info("created the topic", "topic", topic)
	case !errors.Is(err, kerr.TopicAlreadyExists):
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}
