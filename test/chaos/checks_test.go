package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// execution is a line that a worker noted.
type execution struct {
	What        string // begin or end
	ID, Root    string
	Key         string // a task's or an origin's URL
	Queue       string
	Redelivered bool
}

type message struct{ id, queue string }

// executions are those of a key.
type executions struct {
	begun, ended int
	roots        map[string]bool
	ids          map[message]int // how often begun, not counting what the broker delivered again
}

// readNotes returns the executions that workers noted, by key.
func readNotes(text []byte) (map[string]*executions, error) {
	found := map[string]*executions{}
	for line := range bytes.Lines(text) {
		var x execution
		if err := json.Unmarshal(line, &x); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		e := found[x.Key]
		if e == nil {
			e = &executions{roots: map[string]bool{}, ids: map[message]int{}}
			found[x.Key] = e
		}
		if x.What == "end" {
			e.ended++
			continue
		}
		e.begun++
		e.roots[x.Root] = true
		if !x.Redelivered {
			e.ids[message{x.ID, x.Queue}]++
		}
	}
	return found, nil
}

// work is a task or an origin, and whether it is known to be done.
type work struct {
	Key   string
	Done  bool
	Graph int64
}

const allWork = `select k.arguments -> 'kwargs' ->> 'key', k.status = 'completed', coalesce(g.graph, 0) from task k left join scheduler_go.graph_tasks g on g.task = k.id
	union all select l.url, exists (select from origin_visit_stats s where s.url = l.url and s.visit_type = l.visit_type and s.last_visit is not null), 0 from listed_origins l`

// verdict is what became of all work.
type verdict struct {
	work, executions, repeats, redelivered int
	repeatsIn                              map[string]int // by queue
	lost                                   int            // of which an execution began and none ended: its worker was killed
	wrong                                  []string       // what must not be
}

func (v *verdict) fault(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// verdict reads what there is and judges it.
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
	v = judge(all, done, added)
	left, err := c.left(ctx)
	v.wrong = append(v.wrong, left...)
	return v, err
}

// judge compares what is in the database, what workers did, and what was added.
func judge(all []work, done map[string]*executions, added []string) verdict {
	v := verdict{work: len(all), repeatsIn: map[string]int{}}
	known, stuck := map[string]bool{}, map[int64]bool{} // graphs of which a task was lost
	for _, k := range all {
		known[k.Key] = true
		if e := done[k.Key]; e != nil && e.ended == 0 {
			v.lost++
			stuck[k.Graph] = k.Graph > 0
		}
	}
	for _, k := range all {
		e := done[k.Key]
		switch {
		case e == nil && stuck[k.Graph]: // waits for what was lost
		case e == nil:
			v.fault("%s was never run", k.Key)
		case e.ended > 0 && !k.Done:
			v.fault("%s was run, and is not known to be done", k.Key)
		}
		if e == nil {
			continue
		}
		if len(e.roots) > 1 {
			v.fault("%s was sent as %d pieces of work", k.Key, len(e.roots))
		}
		first := 0
		for m, n := range e.ids {
			first += n
			v.repeats += n - 1
			v.repeatsIn[m.queue] += n - 1
		}
		v.executions += e.begun
		v.redelivered += e.begun - first
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
	return v
}

// mostLost is how many tasks the workers that ended ran at most: their executions, or the
// events of their ends, may be lost.
func (c *cluster) mostLost() (n int) {
	for _, w := range c.workers {
		n += (w.runs - 1) * concurrency
	}
	return n
}

// left is what the tables of work still hold beyond what workers lost.
func (c *cluster) left(ctx context.Context) (wrong []string, err error) {
	lost := c.mostLost()
	var outgoing, backlog, sent, changes int
	err = c.pool.QueryRow(ctx, `select count(*) filter (where state = 'outgoing'), count(*) filter (where state = 'backlog'), count(*) filter (where state = 'sent'),
		(select count(*) from scheduler_go.candidate_changes) from scheduler_go.work`).Scan(&outgoing, &backlog, &sent, &changes)
	if outgoing > 0 || backlog > 0 || sent > lost {
		wrong = append(wrong, fmt.Sprintf("the ledger holds %d outgoing messages, %d in backlogs, %d sent; workers lost %d at most", outgoing, backlog, sent, lost))
	}
	if changes > 100 {
		wrong = append(wrong, fmt.Sprintf("%d changes of candidates are left", changes))
	}
	return wrong, err
}

// settle waits until all work is as it must be and the workers have been quiet for a
// while, at most as long as patience says, and returns the last verdict.
func (c *cluster) settle(added []string, patience time.Duration) verdict {
	c.t.Helper()
	const quiet = 10 * time.Second
	var size int64
	var v verdict
	changed, deadline := time.Now(), time.Now().Add(patience)
	for ticker := time.NewTicker(time.Second); ; <-ticker.C {
		c.keepWorkers(func(*child) bool { return false })
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
		if len(v.wrong) == 0 || time.Now().After(deadline) {
			slices.Sort(v.wrong)
			return v
		}
	}
}

// check fails the test for what must not be.
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
	if most := w.c.mostLost(); v.lost > most {
		t.Errorf("%d executions began and none ended; workers that ended ran %d at most", v.lost, most)
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
		// What was sent again is there beside the first of it.
		if most := q.limit + v.repeatsIn[q.name]; q.limit > 0 && w.most[q.name] > most {
			t.Errorf("%s had %d ready messages; its limit is %d and %d were sent again", q.name, w.most[q.name], q.limit, v.repeatsIn[q.name])
		}
		if longest := w.queues[q.name].longest(); longest > stallBound {
			t.Errorf("%s had work, room and no delivery for %s, want %s at most", q.name, longest, stallBound)
		}
	}
}
