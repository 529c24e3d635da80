package dashboard

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	maxStreams = 200              // open at a time
	streamTime = 10 * time.Minute // then the browser opens a new one
)

// stream tells the browser which fragments of a page have changed, until it goes away, by
// server-sent events: data has the names, separated by blanks. What is told first is compared
// with what the browser was shown at most a refresh before, so all fragments are told once.
func (d *Dashboard) stream(p Page, w http.ResponseWriter, r *http.Request, user User) {
	select {
	case d.streams <- struct{}{}:
		d.metrics.streams.Inc()
		defer func() {
			d.metrics.streams.Dec()
			<-d.streams
		}()
	default:
		d.fail(w, r, Errorf(http.StatusServiceUnavailable, "Too many pages are open with live updates."))
		return
	}
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
		text := ": nothing new\n\n" // which finds out that the browser is gone
		if changed := d.changed(p, r, user, last); len(changed) > 0 {
			text = "data: " + strings.Join(changed, " ") + "\n\n"
		}
		if send(text) != nil {
			return
		}
	}
}

// changed returns the fragments that are not as in last, and puts them there. A page that can't
// be read now has not changed.
func (d *Dashboard) changed(p Page, r *http.Request, user User, last map[string][sha256.Size]byte) (names []string) {
	read, err := d.read(p, r, User{})
	if err != nil {
		return nil
	}
	for _, name := range p.Fragments {
		html, err := d.fragment(p, read, fragment{name, user.MayAct})
		if err != nil {
			continue
		}
		if now := sha256.Sum256(html); now != last[name] {
			last[name] = now
			names = append(names, name)
		}
	}
	return names
}
