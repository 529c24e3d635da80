package dashboard

import (
	"bytes"
	"context"
	"sync"
	"time"
)

const (
	refresh   = 2 * time.Second // how long data of a page is shown to all who read it
	maxShared = 100             // addresses whose data is kept at a time
)

// shared is the data of pages, by address: many readers of an address cost one reading.
type shared struct {
	mu   sync.Mutex
	byID map[string]*reading
}

// reading is data that is there, or on its way until done is closed, and its fragments in HTML.
type reading struct {
	since time.Time
	done  chan struct{}
	data  any
	err   error

	mu   sync.Mutex
	html map[fragment][]byte
}

// fragment is a part of a page for those who may act, or for those who may not.
type fragment struct {
	name   string
	mayAct bool
}

// of returns what is read of an address, for which it calls compute. An error is only for who waits for it,
// as there may be none a moment later. It waits for it no longer than
// ctx lasts; compute goes on for the others.
func (s *shared) of(ctx context.Context, address string, compute func(ctx context.Context) (any, error)) (*reading, error) {
	s.mu.Lock()
	now := time.Now()
	r := s.byID[address]
	if r == nil || r.isDone() && (r.err != nil || now.Sub(r.since) > refresh) { // both are written before it is done
		if len(s.byID) >= maxShared || s.byID == nil {
			s.byID = map[string]*reading{}
		}
		r = &reading{since: now, done: make(chan struct{})}
		s.byID[address] = r
		go func() {
			defer close(r.done)
			r.data, r.err = compute(context.WithoutCancel(ctx))
			r.since = time.Now()
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget has all read anew.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

func (r *reading) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// fragment returns a fragment of a page in HTML, made once for all who look. So it has nothing of
// the user but whether he may act: forms with their tokens are outside of fragments.
func (d *Dashboard) fragment(p Page, r *reading, f fragment) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if html, ok := r.html[f]; ok {
		return html, nil
	}
	var html bytes.Buffer
	if err := d.templates[p.Path].ExecuteTemplate(&html, f.name, view{Data: r.data, Page: p, User: User{MayAct: f.mayAct}}); err != nil {
		return nil, err
	}
	if r.html == nil {
		r.html = map[fragment][]byte{}
	}
	r.html[f] = html.Bytes()
	return html.Bytes(), nil
}
