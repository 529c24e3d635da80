package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
)

// strip is on every page: problems by tone, and the age of each source's data. The background reads it once for all
// pages. A page waits for it briefly, and only before the first reading.
type strip struct {
	Critical, Warning, Idle int
	Counted                 bool // the problems are counted
	Sources                 []source
}

// source is a source of the pages' figures.
type source struct {
	Name string
	Old  bool   // its figures may be outdated
	Text string // their age, in words
}

// counts are the strip's part of facts.
type counts struct {
	critical, warning, idle int
	events, journal         time.Time // the time up to which each is read; zero: unknown
}

const (
	stripEvery = 5 * time.Second
	stripWait  = 100 * time.Millisecond

	oldDatabase = 20 * time.Second
	oldBroker   = 20 * time.Second
	oldEvents   = 5 * time.Minute
	oldJournal  = 5 * time.Minute
)

// readCounts counts problems. It doesn't log what it can't read: pages do.
func (d *Dashboard) readCounts(ctx context.Context) (c counts, err error) {
	f := facts{now: d.Reads.Now()}
	if f.figures, err = d.now.figures.must(ctx); err != nil {
		return c, err
	}
	if f.ended, err = d.now.ended.must(ctx); err != nil {
		return c, err
	}
	if f.daemons, err = d.Reads.Daemons(ctx, maxDaemons); err != nil {
		return c, err
	}
	f.queues, _, _ = d.now.queues.get(ctx)
	f.groups, _, _ = d.now.groups.get(ctx)
	f.lanes, _, _ = d.now.lanes.get(ctx)
	for _, p := range f.problems() {
		if p.Critical {
			c.critical++
		} else {
			c.warning++
		}
	}
	c.idle = len(f.idle())
	if age := f.figures.EventsAge; age >= 0 {
		c.events = f.now.Add(-time.Duration(age * float64(time.Second)))
	}
	for _, daemon := range f.daemons {
		if strings.HasPrefix(daemon.Name, "journal-client") {
			for _, last := range daemon.State.Last {
				if last.After(c.journal) {
					c.journal = last
				}
			}
		}
	}
	return c, nil
}

// idle returns what does nothing, perhaps without a problem.
func (f facts) idle() problems {
	all := problems{}
	add := func(page, format string, args ...any) {
		all = append(all, Problem{Idle: true, Text: fmt.Sprintf(format, args...), Page: page})
	}
	if len(f.daemons) > 0 {
		for _, name := range []string{"start-runner", "schedule-recurrent", "start-listener", "journal-client"} {
			if !f.runs(name) {
				add("/daemons", "No %s is known to run.", name)
			}
		}
	}
	unread, first := 0, ""
	for _, q := range f.queues {
		if q.Problem == "" && q.Consumers == 0 && q.Ready+q.Backlog == 0 {
			if unread++; unread == 1 {
				first = q.Queue
			}
		}
	}
	switch {
	case unread == 1:
		add(queuePath(first), "No worker reads %s, which is empty.", first)
	case unread > 1:
		add("/queues", "No worker reads %d queues, which are empty: %s and others.", unread, first)
	}
	return all
}

// strip returns the current content of the strip.
func (d *Dashboard) strip(ctx context.Context) strip {
	c, at, _ := d.now.counts.get(ctx)
	s := strip{Critical: c.critical, Warning: c.warning, Idle: c.idle, Counted: !at.IsZero()}
	s.Sources = append(s.Sources, sourceOf("database", d.now.figures.readAt(), oldDatabase))
	if d.Broker == nil {
		s.Sources = append(s.Sources, source{Name: "broker", Old: true, Text: "not configured"})
	} else {
		s.Sources = append(s.Sources, sourceOf("broker", d.now.queues.readAt(), oldBroker))
	}
	if s.Counted {
		now := d.Reads.Now()
		local := func(t time.Time) time.Time { // by this host's clock
			if t.IsZero() {
				return t
			}
			return time.Now().Add(t.Sub(now))
		}
		s.Sources = append(s.Sources, sourceOf("events", local(c.events), oldEvents), sourceOf("journal", local(c.journal), oldJournal))
	}
	return s
}

func sourceOf(name string, at time.Time, old time.Duration) source {
	if at.IsZero() {
		return source{name, true, "not known"}
	}
	age := time.Since(at)
	text := "now"
	if age >= old/2 {
		if age < time.Minute {
			age = age.Truncate(5 * time.Second) // so that the strip changes less often
		}
		text = explain.Roughly(age) + " ago"
	}
	return source{name, age >= old, text}
}

// readAt returns the time of the last value, whatever its age; zero: there is none.
func (b *background[T]) readAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// All counts the problems that are critical or warnings.
func (s strip) All() int { return s.Critical + s.Warning }

// Words returns the problems in words.
func (s strip) Words() string {
	if !s.Counted {
		return "Problems are being counted"
	}
	var words []string
	if s.Critical > 0 {
		words = append(words, fmt.Sprintf("%d critical", s.Critical))
	}
	if s.Warning > 0 {
		words = append(words, model.Count(s.Warning, "warning", "warnings"))
	}
	if s.Idle > 0 {
		words = append(words, fmt.Sprintf("%d idle", s.Idle))
	}
	if len(words) == 0 {
		return "No problems"
	}
	return strings.Join(words, ", ")
}

// Tone returns the tone of the worst problem.
func (s strip) Tone() string {
	switch {
	case s.Critical > 0:
		return "critical"
	case s.Warning > 0:
		return "warns"
	}
	return "idle"
}

// stripFragment is the name of the strip among the fragments of a page.
const stripFragment = "strip"

// answerStrip responds with the strip.
func (d *Dashboard) answerStrip(w http.ResponseWriter, r *http.Request) {
	html, err := d.stripHTML(r.Context())
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// stripHTML returns the HTML of the strip, which is the same on every page.
func (d *Dashboard) stripHTML(ctx context.Context) ([]byte, error) {
	var html bytes.Buffer
	err := d.templates[overviewPage.Path].ExecuteTemplate(&html, stripFragment, view{Strip: new(d.strip(ctx))})
	return html.Bytes(), err
}
