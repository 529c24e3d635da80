package dashboard

import (
	"bytes"
	"context"
	"sync"
	"time"
)

const (
	refresh   = 2 * time.Second // how long readers share a page's data
	maxShared = 100             // addresses with stored data
)

// shared stores the data of pages by address, so that an address is read once for many readers.
type shared struct {
	mu   sync.Mutex
	byID map[string]*reading
}

// reading is the data of a page and the HTML of its fragments. data and err are written before done is closed.
type reading struct {
	since time.Time
	done  chan struct{}
	data  any
	err   error

	mu   sync.Mutex
	html map[fragment][]byte
}

// fragment is a part of a page, for users with the same rights.
type fragment struct {
	name   string
	rights Rights
}

// of returns the reading of an address. If none is recent, it runs compute in a goroutine and waits for it or for the
// end of ctx, which doesn't stop compute. Errors are not stored.
func (s *shared) of(ctx context.Context, address string, compute func(ctx context.Context) (any, error)) (*reading, error) {
	s.mu.Lock()
	now := time.Now()
	r := s.byID[address]
	if r == nil || r.isDone() && (r.err != nil || now.Sub(r.since) > refresh) {
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

// forget drops all readings.
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

// fragment returns the HTML of a fragment, rendered once for all readers with the same rights. Forms have the user's
// token, so they are outside of fragments.
func (d *Dashboard) fragment(p Page, r *reading, f fragment) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if html, ok := r.html[f]; ok {
		return html, nil
	}
	var html bytes.Buffer
	if err := d.templates[p.Path].ExecuteTemplate(&html, f.name, view{Data: r.data, Page: p, User: User{rights: f.rights}}); err != nil {
		return nil, err
	}
	if r.html == nil {
		r.html = map[fragment][]byte{}
	}
	r.html[f] = html.Bytes()
	return html.Bytes(), nil
}
