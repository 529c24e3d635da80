package recurrent

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

const (
	samplePeriod  = time.Minute
	samplesARound = 20
	maxSamples    = 5000               // visits followed at a time
	sampleKept    = 7 * 24 * time.Hour // samples forgets a visit without an outcome after that
	maxListers    = 100                // with a label value of their own
)

// sampleStore is the part of the store that samples read.
type sampleStore interface {
	VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error)
	ListersByID(ctx context.Context, ids []uuid.UUID) ([]model.Lister, error)
}

// samples follows a random sample of the claimed visits to their outcomes. Its counter shows which policies
// and listers cause visits in vain. The claim gives a visit's policy and lister; the origin's stats give
// the outcome.
type samples struct {
	store   sampleStore
	log     *slog.Logger
	now     func() time.Time
	ended   *prometheus.CounterVec
	listers service.LabelValues

	mu      sync.Mutex
	pending map[model.OriginKey]sample
}

type sample struct {
	lister  uuid.UUID
	policy  model.VisitPolicy
	claimed time.Time
	before  model.VisitStats // when the visit was claimed
}

func newSamples(store sampleStore, log *slog.Logger, now func() time.Time, reg prometheus.Registerer) *samples {
	return &samples{
		store: store, log: log, now: now, listers: service.LabelValues{Max: maxListers}, pending: make(map[model.OriginKey]sample),
		ended: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_recurrent_sampled_visits_total",
			Help: "Visits that ended of a random sample of those claimed, by visit type, policy, lister and outcome: eventful, uneventful (made in vain), failed, not_found.",
		}, []string{"visit_type", "policy", "lister", "outcome"}),
	}
}

// add follows the first visits of a claim. The visits are in random order.
func (s *samples) add(ctx context.Context, visits []dispatch.Visit) {
	s.mu.Lock()
	room := maxSamples - len(s.pending)
	s.mu.Unlock()
	chosen := make(map[model.OriginKey]sample)
	var keys []model.OriginKey
	for _, v := range visits[:min(len(visits), samplesARound, room)] {
		key := model.OriginKey{URL: v.Origin.URL, VisitType: v.Origin.VisitType}
		chosen[key] = sample{lister: v.Origin.ListerID, policy: v.Policy, claimed: s.now()}
		keys = append(keys, key)
	}
	stats, err := s.store.VisitStats(ctx, keys)
	if err != nil {
		s.log.Debug("no visits are sampled", "error", err)
		return
	}
	for _, before := range stats {
		key := model.OriginKey{URL: before.URL, VisitType: before.VisitType}
		if c, ok := chosen[key]; ok {
			c.before = before
			chosen[key] = c
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range chosen {
		if len(s.pending) < maxSamples { // another visit type may have taken the room
			s.pending[key] = c
		}
	}
}

// run counts outcomes every minute until ctx ends.
func (s *samples) run(ctx context.Context) error {
	return service.Every(ctx, samplePeriod, s.log, "sampling visits", s.countEnded)
}

// countEnded counts the followed visits that have ended, and forgets visits older than sampleKept.
func (s *samples) countEnded(ctx context.Context) error {
	s.mu.Lock()
	pending := make(map[model.OriginKey]sample, len(s.pending))
	keys := make([]model.OriginKey, 0, len(s.pending))
	for key, c := range s.pending {
		if s.now().Sub(c.claimed) > sampleKept {
			delete(s.pending, key)
			continue
		}
		pending[key], keys = c, append(keys, key)
	}
	s.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	stats, err := s.store.VisitStats(ctx, keys)
	if err != nil {
		return err
	}
	var ended []model.VisitStats
	var listers []uuid.UUID
	for _, after := range stats {
		c := pending[model.OriginKey{URL: after.URL, VisitType: after.VisitType}]
		if visited(c.before, after) {
			ended, listers = append(ended, after), append(listers, c.lister)
		}
	}
	found, err := s.store.ListersByID(ctx, listers)
	if err != nil {
		return err
	}
	names := make(map[uuid.UUID]string, len(found))
	for _, l := range found {
		names[l.ID] = l.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, after := range ended {
		key := model.OriginKey{URL: after.URL, VisitType: after.VisitType}
		c := pending[key]
		delete(s.pending, key)
		s.ended.WithLabelValues(key.VisitType, string(c.policy), s.listers.Value(names[c.lister]), outcome(c.before, after)).Inc()
	}
	return nil
}

// visited reports whether a visit has ended between before and after. Each end moves the origin in the
// queue of visits.
func visited(before, after model.VisitStats) bool {
	b, a := before.NextVisitQueuePosition, after.NextVisitQueuePosition
	return a != nil && (b == nil || *a != *b)
}

// outcome returns the outcome of the visit that ended between before and after.
func outcome(before, after model.VisitStats) string {
	switch {
	case after.LastVisitStatus != model.VisitSuccessful:
		return string(after.LastVisitStatus)
	case bytes.Equal(before.LastSnapshot, after.LastSnapshot):
		return "uneventful"
	}
	return "eventful"
}
