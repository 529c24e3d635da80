package service

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// stuckAfter is how long one round of a loop may last before the daemon counts as stuck. It is longer than every
// time limit of work within a round.
const stuckAfter = 15 * time.Minute

// Health records which services a daemon waits for, and whether its loops make progress. Loops under a context of
// WithHealth report to it. The nil value ignores all reports.
type Health struct {
	now func() time.Time

	mu       sync.Mutex
	expected []expected
	services []*Service
	optional []*Service // shown as metrics only
	pulses   map[*Pulse]bool
}

// expected is a condition for the daemon's work, until it is met.
type expected struct {
	what  string
	since time.Time
}

// NewHealth makes the health of a daemon that waits for nothing yet.
func NewHealth() *Health { return &Health{now: time.Now, pulses: map[*Pulse]bool{}} }

type healthKey struct{}

// WithHealth makes the loops under ctx report to h.
func WithHealth(ctx context.Context, h *Health) context.Context {
	return context.WithValue(ctx, healthKey{}, h)
}

// HealthOf returns the Health of ctx, or nil.
func HealthOf(ctx context.Context) *Health {
	h, _ := ctx.Value(healthKey{}).(*Health)
	return h
}

// locked runs f with the lock held.
func (h *Health) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Expect makes the daemon count as not ready until met is called.
func (h *Health) Expect(what string) (met func()) {
	if h == nil {
		return func() {}
	}
	h.locked(func() { h.expected = append(h.expected, expected{what, h.now()}) })
	return sync.OnceFunc(func() {
		h.locked(func() {
			at := slices.IndexFunc(h.expected, func(e expected) bool { return e.what == what })
			h.expected = slices.Delete(h.expected, at, at+1)
		})
	})
}

// Watch makes the daemon count as not ready while s cannot be reached.
func (h *Health) Watch(s *Service) {
	if h != nil && s != nil {
		h.locked(func() { h.services = append(h.services, s) })
	}
}

// Show shows s among the metrics. The daemon counts as ready without it.
func (h *Health) Show(s *Service) {
	if h != nil {
		h.locked(func() { h.optional = append(h.optional, s) })
	}
}

// NotReady lists the conditions that the daemon waits for, and the loops that fail, as texts; nil if it is ready.
func (h *Health) NotReady() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var waits []string
	for _, s := range h.services {
		if away := s.since(); !away.IsZero() {
			waits = append(waits, fmt.Sprintf("waiting for %s, which cannot be reached since %s", s.name, away.UTC().Format(time.RFC3339)))
		}
	}
	for _, e := range h.expected {
		waits = append(waits, "waiting for "+e.what)
	}
	for p := range h.pulses {
		if p.beside || p.call {
			continue
		}
		if failing := p.trouble.since(); !failing.IsZero() {
			waits = append(waits, fmt.Sprintf("%s has failed since %s", p.name, failing.UTC().Format(time.RFC3339)))
		}
		if p.awaited && p.last.IsZero() {
			waits = append(waits, "waiting for a first good round of "+p.name)
		}
	}
	slices.Sort(waits) // several loops of one work, such as those of visit types, appear once
	return slices.Compact(waits)
}

// StuckLoops lists the loops that make no progress, as texts; nil if the daemon is alive.
func (h *Health) StuckLoops() []string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var stuck []string
	for p := range h.pulses {
		if !p.beside && !p.since.IsZero() && h.now().Sub(p.since) > stuckAfter {
			what := "a round of"
			if p.call {
				what = "a call of"
			}
			stuck = append(stuck, fmt.Sprintf("%s %s lasts since %s", what, p.name, p.since.UTC().Format(time.RFC3339)))
		}
	}
	slices.Sort(stuck)
	return stuck
}

// Handle adds GET /healthz (alive) and GET /readyz (able to work) to mux: 200, or
// 503 with the reasons, a line each.
func (h *Health) Handle(mux *http.ServeMux) {
	answer := func(well string, reasons func() []string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			answer := well
			if problems := reasons(); len(problems) > 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				answer = strings.Join(problems, "\n")
			}
			_, _ = fmt.Fprintln(w, answer)
		}
	}
	mux.HandleFunc("GET /healthz", answer("alive", h.StuckLoops))
	mux.HandleFunc("GET /readyz", answer("ready", h.NotReady))
}
