package recurrent

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
)

// slowStats answers once all wait.
type slowStats struct{ all *sync.WaitGroup }

func (s slowStats) VisitStats(context.Context, []model.OriginKey) ([]model.VisitStats, error) {
	s.all.Done()
	s.all.Wait()
	return nil, nil
}

func (slowStats) ListersByID(context.Context, []uuid.UUID) ([]model.Lister, error) { return nil, nil }

// Loops of several visit types that fill the last places at once don't let a later one fail.
func TestSamplesAreFilledByTwoLoops(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	s := newSamples(slowStats{&all}, slog.New(slog.DiscardHandler), time.Now, prometheus.NewRegistry())
	claim := func(visitType string) (visits []dispatch.Visit) {
		for i := range samplesARound {
			var v dispatch.Visit
			v.Origin.URL, v.Origin.VisitType = "https://"+strconv.Itoa(i), visitType
			visits = append(visits, v)
		}
		return visits
	}
	for i := range maxSamples - 1 {
		s.pending[model.OriginKey{URL: strconv.Itoa(i)}] = sample{}
	}
	all.Add(2)
	var loops sync.WaitGroup
	for _, visitType := range []string{"git", "hg"} {
		loops.Go(func() { s.add(t.Context(), claim(visitType)) })
	}
	loops.Wait()
	all.Add(1)
	s.add(t.Context(), claim("svn"))
	if n := len(s.pending); n > maxSamples {
		t.Errorf("%d visits are followed, %d at most", n, maxSamples)
	}
}
