package dashboard

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	maxStreams = 200              // open streams
	maxFromOne = 50               // of these, from one address
	streamTime = 10 * time.Minute // then the browser opens a new one
	userTime   = 10 * time.Second // how long a stream goes on after its session has ended
)

// streams counts the open event streams by the address of the browser.
type streams struct {
	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// open counts another stream. It returns false if there are too many.
func (s *streams) open(from netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.from[from] >= maxFromOne {
		return false
	}
	if s.from == nil {
		s.from = map[netip.Prefix]int{}
	}
	s.all++
	s.from[from]++
	return true
}

func (s *streams) close(from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.from[from]--; s.from[from] == 0 {
		delete(s.from, from)
	}
}

// stream sends server-sent events until the browser closes the connection. An event has the names of the page's changed
// fragments, separated by blanks. An event "read" has the time of each reading. The first event names all fragments: the
// browser's page may be older than the stream.
func (d *Dashboard) stream(p Page, w http.ResponseWriter, r *http.Request, user User) {
	from := d.Access.proxies().Source(r)
	if !d.streams.open(from) {
		d.fail(w, r, Errorf(http.StatusServiceUnavailable, "Too many pages are open with live updates."))
		return
	}
	d.metrics.streams.Inc()
	defer func() {
		d.metrics.streams.Dec()
		d.streams.close(from)
	}()
	connection := http.NewResponseController(w)
	send := func(text string) error {
		_ = connection.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return connection.Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if send("retry: 5000\n\n") != nil {
		return
	}
	end := time.NewTimer(streamTime)
	defer end.Stop()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	last := map[string][sha256.Size]byte{}
	looked := time.Now()
	for {
		select {
		case <-tick.C:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		case <-d.stopped.Done():
			return
		}
		if time.Since(looked) >= d.userTime {
			if now, err := d.reader(r); err != nil || now != user {
				return // the session has ended; the browser loads the page again
			}
			looked = time.Now()
		}
		text := ": not read\n\n" // a write detects a closed connection
		changed, ok := d.changed(p, r, user, last)
		if ok {
			text = "event: read\ndata: as of " + iso(d.Reads.Now()) + "\n\n"
		}
		if len(changed) > 0 {
			text += "data: " + strings.Join(changed, " ") + "\n\n"
		}
		if send(text) != nil {
			return
		}
	}
}

// changed returns the fragments whose hashes differ from last, and updates last. If the page can't be read, ok is false,
// and only the strip may have changed.
func (d *Dashboard) changed(p Page, r *http.Request, user User, last map[string][sha256.Size]byte) (names []string, ok bool) {
	note := func(name string, html []byte) {
		if now := sha256.Sum256(html); now != last[name] {
			last[name] = now
			names = append(names, name)
		}
	}
	read, err := d.read(p, r, User{})
	if html, err := d.stripHTML(r.Context()); err == nil {
		note(stripFragment, html)
	}
	if err != nil {
		return names, false
	}
	for _, name := range p.Fragments {
		if html, err := d.fragment(p, read, fragment{name, user.rights}); err == nil {
			note(name, html)
		}
	}
	return names, true
}
