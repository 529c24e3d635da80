package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// state is what a watcher knows of a daemon or of a queue.
type state struct {
	harmed  int       // faults in force that hit it
	freed   time.Time // when the last of them ended
	well    time.Time // when it last was ready, or had a delivery
	waiting time.Time // since when a queue has had work and room; zero: it has not
	longest time.Duration
}

// look notes whether it is well; stalls are counted from the end of the last fault.
func (s *state) look(well bool, since time.Time) {
	now := time.Now()
	if well {
		s.well = now
	}
	if s.harmed > 0 || well {
		return
	}
	for _, later := range []time.Time{s.freed, s.well} {
		if later.After(since) {
			since = later
		}
	}
	s.longest = max(s.longest, now.Sub(since))
}

// watcher looks at daemons twice and at queues once a second.
type watcher struct {
	c      *cluster
	client *http.Client
	began  time.Time
	all    sync.WaitGroup

	mu      sync.Mutex
	daemons map[*daemon]*state
	queues  map[string]*state
	depth   map[string]int // the last sample, ready and unacknowledged
	deepest map[string]int
	samples int
	rss     map[string]int // the most, in kB, by daemon
}

func newWatcher(c *cluster) *watcher {
	w := &watcher{
		c: c, client: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, began: time.Now(),
		daemons: map[*daemon]*state{}, queues: map[string]*state{}, depth: map[string]int{}, deepest: map[string]int{}, rss: map[string]int{},
	}
	for _, d := range c.daemons {
		w.daemons[d] = &state{well: w.began}
	}
	for _, q := range queues {
		w.queues[q.name] = &state{well: w.began}
	}
	return w
}

func (w *watcher) age() time.Duration { return time.Since(w.began).Round(time.Second) }

// run looks until ctx ends; wait returns when it has.
func (w *watcher) run(ctx context.Context) {
	for _, d := range w.c.daemons {
		w.all.Go(func() { every(ctx, time.Second/2, func() { w.lookAtDaemon(ctx, d) }) })
	}
	w.all.Go(func() { every(ctx, time.Second, func() { w.lookAtBroker(ctx) }) })
	w.all.Go(func() { every(ctx, time.Second, func() { w.lookAtWork(ctx) }) })
}

func (w *watcher) wait() { w.all.Wait() }

func every(ctx context.Context, period time.Duration, f func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// change changes the states that a fault harms.
func (w *watcher) change(h harm, f func(*state)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range h.daemons {
		f(w.daemons[d])
	}
	for _, q := range queues {
		if h.queues != nil && h.queues(q) {
			f(w.queues[q.name])
		}
	}
}

func (w *watcher) begin(h harm) { w.change(h, func(s *state) { s.harmed++ }) }

func (w *watcher) end(h harm) {
	w.change(h, func(s *state) { s.harmed, s.freed = s.harmed-1, time.Now() })
}

func (w *watcher) ready(ctx context.Context, d *daemon) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.metrics+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := w.client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (w *watcher) lookAtDaemon(ctx context.Context, d *daemon) {
	ready := w.ready(ctx, d)
	memory := peakMemory(d.pid.Load())
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.daemons[d].look(ready, time.Time{})
		w.rss[d.name] = max(w.rss[d.name], memory)
	}
}

// lookAtBroker asks the first node that answers.
func (w *watcher) lookAtBroker(ctx context.Context) {
	var found []struct {
		Name     string
		Messages int
	}
	for _, n := range w.c.broker.Nodes {
		if w.get(ctx, n.ManagementURL+"api/queues?columns=name,messages", &found) == nil {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if found != nil {
		w.samples++
	}
	for _, q := range found {
		w.depth[q.Name] = q.Messages
		w.deepest[q.Name] = max(w.deepest[q.Name], q.Messages)
	}
}

func (w *watcher) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// workQuery has the work that is ready by the queue that it waits for, and since when the
// queue has had no delivery.
const workQuery = `with ready (queue, work) as (
	select case when k.priority is null then '' else 'save_code_now:' end || y.backend_name, 1 from task k join task_type y on y.type = k.type
	where k.status = 'next_run_not_scheduled' and k.next_run <= now()
	union all select case l.visit_type when 'hg' then 'express:swh.chaos.Hg' else 'swh.chaos.Git' end, 1 from listed_origins l
	where not exists (select from origin_visit_stats s where s.url = l.url and s.visit_type = l.visit_type and s.last_scheduled is not null)
	union all select queue, 1 from scheduler_go.work where state = 'outgoing' and not_before <= now())
	select queue, coalesce(extract(epoch from clock_timestamp() - (select max(delivered_at) from scheduler_go.deliveries d where d.queue = r.queue)), 1e6)::float8
	from ready r group by queue`

func (w *watcher) lookAtWork(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := w.c.pool.Query(ctx, workQuery)
	if err != nil {
		return
	}
	defer rows.Close()
	ago := map[string]time.Duration{}
	for rows.Next() {
		var name string
		var seconds float64
		if rows.Scan(&name, &seconds) != nil {
			return
		}
		ago[name] = time.Duration(seconds * float64(time.Second))
	}
	if rows.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		s := w.queues[q.name]
		delivered, ready := ago[q.name]
		// Refilled are queues of which a part is free.
		if !ready || w.depth[q.name] > q.limit*2/3 {
			s.waiting = time.Time{}
			continue
		}
		now := time.Now()
		if s.waiting.IsZero() {
			s.waiting = now
		}
		s.well = now.Add(-delivered)
		s.look(false, s.waiting)
	}
}

// peakMemory returns how much memory a process has had at most, in kB; 0 if it is gone.
func peakMemory(pid int64) (kB int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kB, _ = strconv.Atoi(strings.TrimSpace(line))
	return kB
}
