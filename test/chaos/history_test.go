package chaos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// history is the SQL that records each change of the status of a run at or after its end, which must happen once
// only. The test's own triggers write it for all writers.
const history = `create schema chaos;
	create table chaos.ends (run bigint, before task_run_status, status task_run_status, at timestamptz default clock_timestamp());
	create function chaos.note_end() returns trigger language plpgsql security definer set search_path = public, pg_temp as
		$$ begin insert into chaos.ends (run, before, status) values (new.id, old.status, new.status); return null; end $$;
	create trigger note_end after update of status on task_run for each row
		when (old.status not in ('scheduled', 'started') or new.status not in ('scheduled', 'started')) execute function chaos.note_end()`

// invariants are properties of the model (docs/devel/models.md) that one statement checks. The statement returns the
// violations as texts.
var invariants = []string{
	// A run's end counts once.
	`select format('run %s ended more than once: %s', run, string_agg(before || ' to ' || status, ', ' order by at)) from chaos.ends
	 group by run having count(*) > 1 or bool_or(before not in ('scheduled', 'started'))`,
	// Charges are never negative.
	`select format('group %s of %s is charged %s seconds, %s pieces', share_group, queue, used, pieces) from scheduler_go.shares where used < -1e-6 or pieces < -1e-6`,
	// Nothing is set aside.
	`select format('task %s is set aside: %s', s.task, s) from scheduler_go.set_aside_tasks s`,
	`select format('origin %s is set aside: %s', s.url, s) from scheduler_go.set_aside_origins s`,
}

// inTheEnd are properties that hold once all is done: each task of a graph has ended, and the ledger and the queues
// of changes are empty.
var inTheEnd = []string{
	`select format('task %s of graph %s is %s until %s', g.name, g.graph, k.status, k.next_run) from scheduler_go.graph_tasks g join task k on k.id = g.task
	 where k.status not in ('completed', 'disabled')`,
	`select format('the ledger holds %s %s messages', count(*), state) from scheduler_go.work where state <> 'settled' group by state`,
	`select format('%s changes of candidates are left', count(*)) from scheduler_go.candidate_changes having count(*) > 100`,
	`select format('%s changes of graphs are left', count(*)) from scheduler_go.graph_changes having count(*) > 0`,
}

// execution is a line of a worker's notes.
type execution struct {
	What        string // begin, end or fail
	ID, Root    string
	Key         string // a task's or an origin's URL
	Queue       string
	Redelivered bool
	At          float64 // Unix time
	PID         int
}

func eachNote(text []byte, do func(execution)) error {
	for line := range bytes.Lines(text) {
		var x execution
		if err := json.Unmarshal(line, &x); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		do(x)
	}
	return nil
}

type message struct{ id, queue string }

// piece is a claim of a task or an origin, with all its messages.
type piece struct {
	root                 string
	begun, ended, failed int
	first, last          float64         // the starts of its first and its last execution
	endedAt              float64         // the first end of an execution
	ids                  map[message]int // starts by id, without the broker's redeliveries
}

func (p *piece) firstDeliveries() (n int) {
	for _, times := range p.ids {
		n += times
	}
	return n
}

// readNotes returns the pieces in workers' notes, by key, in the order of their starts.
func readNotes(text []byte) (map[string][]*piece, error) {
	found := map[string][]*piece{}
	err := eachNote(text, func(x execution) {
		i := slices.IndexFunc(found[x.Key], func(p *piece) bool { return p.root == x.Root })
		if i < 0 {
			i = len(found[x.Key])
			found[x.Key] = append(found[x.Key], &piece{root: x.Root, first: x.At, ids: map[message]int{}})
		}
		p := found[x.Key][i]
		switch x.What {
		case "end":
			p.endedAt = cmp.Or(p.endedAt, x.At)
			p.ended++
			return
		case "fail":
			p.failed++
			return
		}
		p.begun++
		p.last = max(p.last, x.At)
		if !x.Redelivered {
			p.ids[message{x.ID, x.Queue}]++
		}
	})
	return found, err
}

// harmed has the possible losses by faults.
type harmed struct {
	processes int    // workers' processes killed while they may have run a task, or had unsent events
	journal   []span // times in which visits may have been written to a deleted topic
}

type span struct{ from, to time.Time }

func (s span) has(at float64) bool {
	return at >= float64(s.from.UnixMilli())/1000 && at <= float64(s.to.UnixMilli())/1000
}
