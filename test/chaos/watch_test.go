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

	amqp "github.com/rabbitmq/amqp091-go"
)

// state is a watcher's state of a daemon or of a queue.
type state struct {
	harmed  int       // faults in force that hit it
	freed   time.Time // when the last of them ended
	well    time.Time // when it was last ready, or had a delivery
	waiting time.Time // since when a queue has had work and room; zero: it hasn't
	after   stall     // the longest from the end of a fault that hit it
	beside  stall     // the longest other one
}

type stall struct {
	lasted time.Duration
	until  time.Time // its end
}

// noticed bounds the time until a silent connection is noticed.
const noticed = 30 * time.Second

// record records whether it is well. A stall counts from the end of the last fault that hit it, if it was not well
// since.
func (s *state) record(well bool, since time.Time) {
	now := time.Now()
	if well {
		s.well = now
	}
	if s.harmed > 0 || well {
		return
	}
	longest := &s.beside
	if s.well.After(since) {
		since = s.well
	}
	if s.freed.After(since) {
		since = s.freed
	}
	if since.Sub(s.freed) < noticed {
		longest = &s.after
	}
	if lasted := now.Sub(since); lasted > longest.lasted {
		*longest = stall{lasted, now}
	}
}

func (s *state) longest() time.Duration { return max(s.after.lasted, s.beside.lasted) }

// watcher observes daemons twice and queues once a second.
type watcher struct {
	c      *cluster
	client *http.Client
	began  time.Time
	all    sync.WaitGroup

	mu      sync.Mutex
	daemons map[*daemon]*state
	queues  map[string]*state
	readyIn map[string]int // by queue: messages at the last look, by its leader
	most    map[string]int // the most of them
	held    map[string]int // by queue: messages held by workers, by the management API
	rss     map[string]int // the largest, in kB, by daemon
}

func newWatcher(c *cluster) *watcher {
	w := &watcher{
		c: c, client: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, began: time.Now(),
		daemons: map[*daemon]*state{}, queues: map[string]*state{}, readyIn: map[string]int{}, most: map[string]int{}, held: map[string]int{}, rss: map[string]int{},
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

// run observes until ctx ends; wait returns when it has.
func (w *watcher) run(ctx context.Context) {
	for _, d := range w.c.daemons {
		w.all.Go(func() { every(ctx, time.Second/2, func() { w.lookAtDaemon(ctx, d) }) })
	}
	w.all.Go(func() { every(ctx, time.Second, func() { w.readUnacknowledged(ctx) }) })
	w.all.Go(func() { w.countReady(ctx) })
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
		w.daemons[d].record(ready, time.Time{})
		w.rss[d.name] = max(w.rss[d.name], memory)
	}
}

// countReady counts the ready messages of each queue until ctx ends, by passive declares, which the queue's leader
// answers. The management API's figures are wrong for some seconds after a change of leader: they are the sum of both
// nodes' last figures.
func (w *watcher) countReady(ctx context.Context) {
	var conn *amqp.Connection
	every(ctx, time.Second, func() {
		for _, n := range w.c.broker.Nodes {
			if conn != nil && !conn.IsClosed() {
				break
			}
			var err error
			if conn, err = amqp.DialConfig(n.URL, amqp.Config{Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(2 * time.Second)}); err != nil {
				conn = nil // one that failed to open can't be used, even if it isn't closed
			}
		}
		for _, q := range queues {
			if conn == nil || conn.IsClosed() {
				return
			}
			ch, err := conn.Channel()
			if err != nil {
				return
			}
			declared, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
			if err != nil {
				continue // its node is away
			}
			_ = ch.Close()
			w.mu.Lock()
			w.readyIn[q.name] = declared.Messages
			w.most[q.name] = max(w.most[q.name], declared.Messages)
			w.mu.Unlock()
		}
	})
	if conn != nil {
		_ = conn.Close()
	}
}

// readUnacknowledged reads the number of unacknowledged messages from the first node that answers.
func (w *watcher) readUnacknowledged(ctx context.Context) {
	var found []struct {
		Name string
		Held int `json:"messages_unacknowledged"`
	}
	for _, n := range w.c.broker.Nodes {
		if getJSON(ctx, n.ManagementURL+"api/queues?columns=name,messages_unacknowledged", &found) == nil {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range found {
		w.held[q.Name] = q.Held
	}
}

// api asks RabbitMQ's management API.
var api = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := api.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// workQuery returns the ready work by its queue, and since when the queue has had no delivery.
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
		// A queue with a free part counts as refilled.
		if !ready || w.readyIn[q.name]+w.held[q.name] > q.limit*2/3 {
			s.waiting = time.Time{}
			continue
		}
		now := time.Now()
		if s.waiting.IsZero() {
			s.waiting = now
		}
		s.well = now.Add(-delivered)
		s.record(false, s.waiting)
	}
}

// peakMemory returns the peak memory of a process, in kB; 0 if it has ended.
func peakMemory(pid int64) (kB int) { return memory(pid, "VmHWM:") }

// memory returns a line of the kernel's figures of a process's memory, in kB; 0 if it has ended.
func memory(pid int64, line string) (kB int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), line)
	number, _, _ := strings.Cut(rest, "kB")
	kB, _ = strconv.Atoi(strings.TrimSpace(number))
	return kB
}
