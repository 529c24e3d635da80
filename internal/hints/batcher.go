package hints

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"swh-scheduler/internal/model"
)

const (
	// maxPending is the most hints that wait for a transaction.
	maxPending = 50 * model.MaxHints
	// batchTimeout bounds a transaction.
	batchTimeout = 30 * time.Second
)

// ErrBusy is the error of a request that finds too many hints waiting. A retry helps.
var ErrBusy = errors.New("too many hints wait to be written; try again")

// ErrTooMany is the error of a request with more than model.MaxHints.
var ErrTooMany = fmt.Errorf("at most %d hints may come at once", model.MaxHints)

// Store writes hints in one transaction.
type Store interface {
	Hint(ctx context.Context, hints []model.Hint, refused map[string]int) ([]model.HintResult, error)
}

// Batcher writes the hints of concurrent requests together. It is safe for concurrent use.
type Batcher struct {
	store Store

	mu      sync.Mutex
	pending []*request
	hints   int  // of pending
	writing bool // a goroutine writes
}

// request has the valid hints of a request. answer and err are set once done is closed.
type request struct {
	hints   []model.Hint
	refused map[string]int
	answer  model.HintAnswer
	err     error
	done    chan struct{}
}

// NewBatcher returns a Batcher on a store.
func NewBatcher(store Store) *Batcher { return &Batcher{store: store} }

// Hint checks hints, waits until the valid ones are committed, and counts all by result. If ctx ends before, the hints
// may still be written.
func (b *Batcher) Hint(ctx context.Context, hints []model.Hint) (model.HintAnswer, error) {
	if len(hints) > model.MaxHints {
		return model.HintAnswer{}, ErrTooMany
	}
	r := &request{refused: map[string]int{}, done: make(chan struct{})}
	for _, h := range hints {
		if why := h.Check(); why != nil {
			r.answer.Refuse(h.URL, why)
			if model.IsHintSource(h.Source) {
				r.refused[h.Source]++
			}
			continue
		}
		r.hints = append(r.hints, h)
	}
	if len(r.hints) == 0 && len(r.refused) == 0 {
		return r.answer, nil
	}
	if err := b.enter(r); err != nil {
		return model.HintAnswer{}, err
	}
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return model.HintAnswer{}, ctx.Err()
	}
}

// enter adds a request to those that wait, and begins to write if no goroutine does.
func (b *Batcher) enter(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hints+len(r.hints) > maxPending || len(b.pending) >= maxPending {
		return ErrBusy
	}
	b.pending, b.hints = append(b.pending, r), b.hints+len(r.hints)
	if !b.writing {
		b.writing = true
		go b.write()
	}
	return nil
}

// write writes batches until no request waits.
func (b *Batcher) write() {
	for {
		batch := b.next()
		if batch == nil {
			return
		}
		if b.commit(batch...) != nil && len(batch) > 1 {
			for _, r := range batch {
				_ = b.commit(r) // the request has the error
			}
		}
		for _, r := range batch {
			close(r.done)
		}
	}
}

// next takes requests of model.MaxHints together, or one; nil if none waits.
func (b *Batcher) next() (batch []*request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, hints := 0, 0
	for n < len(b.pending) && (n == 0 || hints+len(b.pending[n].hints) <= model.MaxHints) && n < model.MaxHints {
		hints += len(b.pending[n].hints)
		n++
	}
	if n == 0 {
		b.pending, b.writing = nil, false
		return nil
	}
	batch, b.pending, b.hints = b.pending[:n:n], b.pending[n:], b.hints-hints
	return batch
}

// commit writes the hints of requests in one transaction, and sets their results.
func (b *Batcher) commit(batch ...*request) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	var hints []model.Hint
	refused := map[string]int{}
	for _, r := range batch {
		hints = append(hints, r.hints...)
		for source, n := range r.refused {
			refused[source] += n
		}
	}
	results, err := b.store.Hint(ctx, hints, refused)
	for _, r := range batch {
		if r.err = err; err == nil {
			r.answer.Add(results[:len(r.hints)]...)
			results = results[len(r.hints):]
		}
	}
	return err
}
