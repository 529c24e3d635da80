package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// work is a task or an origin, and whether it is recorded as done.
type work struct {
	Key  string
	Done bool
}

const allWork = `select k.arguments -> 'kwargs' ->> 'key', k.status = 'completed' from task k
	union all select l.url, exists (select from origin_visit_stats s where s.url = l.url and s.visit_type = l.visit_type and s.last_visit is not null) from listed_origins l`

// verdict is the result for all work.
type verdict struct {
	work, executions, repeats, redelivered int
	repeatsIn                              map[string]int // by queue
	lost                                   int            // work with an execution that began and none that ended
	again                                  int            // work that ended, whose end a worker lost
	visits                                 int            // the same lost with a topic
	open                                   []string       // work that is not done yet
	wrong                                  []string       // violations
}

func (v *verdict) fault(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// verdict reads and judges the evidence.
func (c *cluster) verdict(ctx context.Context, added []string) (v verdict, err error) {
	text, err := os.ReadFile(c.notes)
	if err != nil {
		return v, err
	}
	done, err := readNotes(text)
	if err != nil {
		return v, err
	}
	rows, err := c.pool.Query(ctx, allWork)
	if err != nil {
		return v, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[work])
	if err != nil {
		return v, err
	}
	h := c.harmed
	for _, w := range c.workers {
		h.processes += (w.runs - 1) * concurrency
	}
	v = judge(all, done, added, h)
	broken, err := c.broken(ctx, invariants)
	v.wrong = append(v.wrong, broken...)
	if err == nil {
		broken, err = c.broken(ctx, inTheEnd)
		v.open = append(v.open, broken...)
	}
	return v, err
}

// broken returns the violations of invariants.
func (c *cluster) broken(ctx context.Context, invariants []string) (all []string, err error) {
	for _, invariant := range invariants {
		rows, _ := c.pool.Query(ctx, invariant)
		broken, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", invariant, err)
		}
		all = append(all, broken...)
	}
	return all, nil
}

// judge compares the database, the workers' notes, and the added work.
func judge(all []work, done map[string][]*piece, added []string, h harmed) verdict {
	v := verdict{work: len(all), repeatsIn: map[string]int{}}
	known := map[string]bool{}
	for _, k := range all {
		known[k.Key] = true
		pieces := done[k.Key]
		if !k.Done {
			v.open = append(v.open, openWork(k.Key, pieces))
		}
		for i, p := range pieces {
			v.executions += p.begun
			first := p.firstDeliveries()
			v.redelivered += p.begun - first
			for m, n := range p.ids {
				v.repeats += n - 1
				v.repeatsIn[m.queue] += n - 1
			}
			last := i == len(pieces)-1
			switch {
			case p.ended == 0 && p.failed == p.begun: // its failure is recorded
			case p.ended == 0:
				v.lost++
			case !last && strings.HasPrefix(k.Key, "https://") && slices.ContainsFunc(h.journal, func(s span) bool { return s.has(p.endedAt) }):
				v.visits++
			case !last:
				v.again++
			}
			// A message of it was in its queue at the next claim of the same work.
			if !last && first == len(p.ids) && p.last > pieces[i+1].first {
				v.fault("%s was given up while its message waited: %s began after %s", k.Key, p.root, pieces[i+1].root)
			}
		}
	}
	for _, key := range added {
		if !known[key] {
			v.fault("%s was added and is not in the database", key)
		}
	}
	for key := range done {
		if !known[key] {
			v.fault("%s was run and is not in the database", key)
		}
	}
	if v.lost > h.processes {
		v.fault("%d pieces of work began and did not end; faults ended %d processes that may have run them", v.lost, h.processes)
	}
	if v.again > h.processes {
		v.fault("%d pieces of work were done, and claimed again; faults ended %d processes that may have lost their events", v.again, h.processes)
	}
	return v
}

func openWork(key string, pieces []*piece) string {
	if len(pieces) == 0 {
		return key + " was never run"
	}
	if p := pieces[len(pieces)-1]; p.ended > 0 {
		return fmt.Sprintf("%s was run (%s, %.3f), and is not known to be done", key, p.root, p.endedAt)
	}
	return key + " was begun, did not end, and was not begun again"
}

// settle waits until all work is done and the workers have been idle for a while, at most for patience, and returns
// the last verdict. When nothing happens, it makes time pass until lost work is given up and claimed again. Work that waits
// for a worker isn't lost, nor are visits that journal clients haven't read, so it waits for these first.
func (c *cluster) settle(w *watcher, added []string, patience time.Duration) verdict {
	c.t.Helper()
	const quiet = 10 * time.Second
	var size int64
	var v verdict
	changed, deadline := time.Now(), time.Now().Add(patience)
	for ticker := time.NewTicker(time.Second); ; <-ticker.C {
		c.keepWorkers()
		if info, err := os.Stat(c.notes); err == nil && info.Size() != size {
			size, changed = info.Size(), time.Now()
		}
		if time.Since(changed) < quiet && time.Now().Before(deadline) {
			continue
		}
		var err error
		if v, err = c.verdict(c.t.Context(), added); err != nil {
			c.t.Fatal(err)
		}
		if len(v.open) == 0 || len(v.wrong) > 0 || time.Now().After(deadline) {
			v.wrong = append(v.wrong, v.open...)
			slices.Sort(v.wrong)
			return v
		}
		if still := time.Since(changed); still > 2*quiet && (c.busy() == "" && c.unread() == 0 || still > sessionsEnd) {
			c.t.Logf("%s not done yet, so time passes: %s", w.age(), strings.Join(v.open[:min(3, len(v.open))], "; "))
			killed := harm{c.daemons, all}
			w.begin(killed)
			c.forget()
			w.end(killed)
			changed = time.Now()
		}
	}
}

// check fails the test for violations.
func (w *watcher) check(v verdict, faults map[string]int) {
	t := w.c.t
	t.Helper()
	for i, wrong := range v.wrong {
		if i == 20 {
			t.Errorf("and %d more", len(v.wrong)-i)
			break
		}
		t.Error(wrong)
	}
	hits := 0
	for _, n := range faults {
		hits += n
	}
	if most := hits * inHandAtMost; v.repeats > most {
		t.Errorf("%d messages were sent again, want %d at most", v.repeats, most)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.c.daemons {
		if longest := w.daemons[d].longest(); longest > readyBound {
			t.Errorf("%s was not ready for %s, want %s at most", d.name, longest, readyBound)
		}
		if w.rss[d.name] > memoryMost {
			t.Errorf("%s had %d kB, want %d at most", d.name, w.rss[d.name], memoryMost)
		}
		if d.ended() {
			t.Errorf("%s has ended", d.name)
		}
	}
	for _, q := range queues {
		// A message that was sent again is there beside the first.
		if most := q.limit + v.repeatsIn[q.name]; q.limit > 0 && w.most[q.name] > most {
			t.Errorf("%s had %d ready messages; its limit is %d and %d were sent again", q.name, w.most[q.name], q.limit, v.repeatsIn[q.name])
		}
		if longest := w.queues[q.name].longest(); longest > stallBound {
			t.Errorf("%s had work, room and no delivery for %s, want %s at most", q.name, longest, stallBound)
		}
	}
}
