package settle

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
)

// world is an in-memory model of the database's rows. It loads and writes as db.Store.Settle does.
type world struct {
	runs    map[int64]*modelRun
	work    map[uuid.UUID]*ledger.LockedWork
	backlog map[uuid.UUID]bool // requeued
	charged map[string]float64 // seconds by group
	pieces  map[string]int
	records map[string]int // of the history, without minutes
	memory  map[int64]ledger.WorkMemory
	counted float64
	ids     uint64

	shownEnds, shownStarts int // of runs, in metrics
}

type modelRun struct {
	ledger.LockedRun
	seen     *ledger.StartEvent
	started  time.Time
	ended    time.Time
	worker   string
	error    string
	ends     int // number of ends: the trigger moves the task on at each
	seconds  float64
	requeued int
	final    bool
}

func newWorld() *world {
	return &world{
		runs: make(map[int64]*modelRun), work: make(map[uuid.UUID]*ledger.LockedWork), backlog: make(map[uuid.UUID]bool),
		charged: make(map[string]float64), pieces: make(map[string]int), records: make(map[string]int), memory: make(map[int64]ledger.WorkMemory),
	}
}

func (w *world) newID() (id uuid.UUID) {
	w.ids++
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id
}

// apply settles a batch.
func (w *world) apply(outcomes []Outcome) {
	byID := gather(outcomes)
	h := keysOf(byID)
	var runs []ledger.LockedRun
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		if r := w.runs[id]; slices.Contains(h.BackendIDs, r.BackendID) {
			row := r.LockedRun
			row.Newest = r.seen
			runs = append(runs, row)
		}
	}
	var work []ledger.LockedWork
	for _, id := range h.TaskIDs {
		if row, ok := w.work[id]; ok && !w.backlog[id] {
			work = append(work, *row)
		}
	}
	decided := decide(byID, runs, work, w.newID)
	for _, o := range observe(byID, runs, work, decided) {
		if o.taskType == "task" && o.status != "" {
			w.shownEnds++
		}
		if o.taskType == "task" && o.waited >= 0 {
			w.shownStarts++
		}
	}
	w.write(decided)
}

func (w *world) write(s ledger.Settlement) {
	for _, start := range s.StartEvents {
		w.runs[start.Run].seen = &start.Start
	}
	begin := func(b ledger.RunBegin) {
		r := w.runs[b.Run]
		r.started, r.worker = b.At, *b.Metadata.Worker
	}
	for _, b := range s.Begun {
		begin(b)
		w.runs[b.Run].Status = model.RunStarted
	}
	for _, b := range s.LateStarts {
		r := w.runs[b.Run]
		was := r.started
		begin(b)
		if r.started = was; was.IsZero() {
			r.started = b.At
			if r.ended.Before(b.At) {
				r.started = r.ended
			}
		}
	}
	for _, wave := range s.Ended {
		for _, e := range wave {
			r := w.runs[e.Run]
			r.Status, r.ended = e.Status, e.At
			r.ends++
			r.final = e.Final
			if e.Started != nil {
				r.started, r.worker = *e.Started, *e.Metadata.Worker
			}
			if e.Metadata.Error != nil {
				r.error, r.HasError = *e.Metadata.Error, true
			}
		}
	}
	for _, e := range s.Errors {
		w.runs[e.Run].error, w.runs[e.Run].HasError = e.Error, true
	}
	for _, d := range s.Durations {
		if w.runs[d.Run].seconds == 0 {
			w.runs[d.Run].seconds = d.Seconds
		}
	}
	for _, r := range s.Requeued {
		w.runs[r.Run].BackendID = r.NewID.String()
		w.runs[r.Run].requeued++
	}
	w.writeWork(s)
}

func (w *world) writeWork(s ledger.Settlement) {
	for _, b := range s.WorkBegun {
		w.work[b.TaskID].Started = &b.Started
	}
	for _, id := range s.WorkGone {
		delete(w.work, id)
	}
	for _, e := range s.WorkSettled {
		row := w.work[e.TaskID]
		row.Settled, row.Started = true, nil
		if e.Started > 0 {
			row.Started = &e.Started
		}
		if row.Share.Shared = e.Charged != nil; row.Share.Shared {
			row.Share.Cost = *e.Charged
		}
		if !e.AwaitsRuntime {
			row.Lane.Set = ""
		}
	}
	for _, r := range s.WorkRequeued {
		row := w.work[r.TaskID]
		delete(w.work, r.TaskID)
		row.TaskID, row.Started = r.NewID, nil
		row.TimedOut++
		w.work[r.NewID], w.backlog[r.NewID] = row, true
	}
	s.Charges.Each(func(queue, group string, seconds float64, pieces int) {
		w.charged[queue+"/"+group] += seconds
		w.pieces[queue+"/"+group] += pieces
	})
	s.Records.Each(func(set, lane, what string, n int) { w.records[set+"/"+lane+"/"+what] += n })
	maps.Copy(w.memory, s.Memories)
	for _, weight := range s.Counts {
		w.counted += weight
	}
}

// drawn says what a drawn message is: a run of a task or a visit, of a group, on lanes.
type drawn struct {
	runs, shared, laned bool
	lanesLeft           int
	cost                float64
	events              []Outcome
}

var begin = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const softLimit = 60

// draw makes one message and the events that Celery and the workers may send for it: perhaps starts of retries, then
// a result, or a time-out, and a runtime. No event has the runtime of a failure, so its group is charged the
// expected cost. That cost equals the real runtime, so the order of start and end makes no difference. For the same
// reason, draw retries only messages without groups and lanes.
func draw(t *rapid.T, n int) (uuid.UUID, drawn) {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(n+1))
	d := drawn{
		runs: rapid.Bool().Draw(t, "run"), shared: rapid.Bool().Draw(t, "shared"), laned: rapid.Bool().Draw(t, "laned"),
		lanesLeft: rapid.IntRange(0, 1).Draw(t, "lanes left"), cost: 5,
	}
	text := id.String()
	at := begin.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "begins")) * time.Second)
	event := func(after float64) Outcome {
		return Outcome{BackendID: text, Received: at.Add(time.Duration((after + 0.001) * float64(time.Second)))}
	}
	clock := func(after float64) float64 { return float64(at.Unix()) + after }
	starts := 1
	if !d.shared && !d.laned {
		starts = rapid.IntRange(1, 3).Draw(t, "starts")
	}
	for i := range starts {
		o := event(float64(i))
		worker := fmt.Sprint("w", i)
		o.Start = &Start{Worker: &worker, EventTime: clock(float64(i))}
		d.events = append(d.events, o)
	}
	took := float64(rapid.SampledFrom([]int{1, 10, softLimit}).Draw(t, "took"))
	end := event(float64(starts-1) + took)
	end.End = &End{Status: rapid.SampledFrom([]model.RunStatus{model.RunEventful, model.RunUneventful, model.RunFailed}).Draw(t, "status"),
		EventTime: clock(float64(starts-1) + took)}
	if end.End.Status == model.RunFailed {
		message := "it failed"
		end.End.Error, end.End.TimedOut = &message, took >= softLimit
		d.cost = took
	}
	d.events = append(d.events, end)
	if end.End.Status != model.RunFailed {
		o := event(float64(starts-1) + took)
		o.Runtime = new(time.Duration(took * float64(time.Second)))
		d.events = append(d.events, o)
	}
	return id, d
}

func (w *world) add(n int, id uuid.UUID, d drawn) {
	if d.runs {
		w.runs[int64(n)] = &modelRun{LockedRun: ledger.LockedRun{ID: int64(n), Task: int64(n / 2), TaskType: "task", BackendID: id.String(), Status: model.RunScheduled, Scheduled: begin}}
	}
	if !d.shared && !d.laned {
		return
	}
	row := ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin}
	if d.shared {
		row.Share = ledger.Share{Shared: true, Group: fmt.Sprint("g", n%2), Cost: d.cost}
	}
	if d.laned {
		row.Lane = ledger.WorkLane{Set: "load-git", Name: "express", Left: d.lanesLeft, SoftLimit: softLimit * time.Second,
			LaneFeatures: ledger.LaneFeatures{Key: int64(n), Lister: "gitea"}}
	}
	w.work[id] = &row
}

// waitKey is where the waits of the drawn messages are recorded.
const waitKey = "load-git/express/" + ledger.LaneWait

// summary returns the state that must not depend on the order of events. It leaves out a start that comes last: one
// of a run that was requeued on another lane, or one that would add a wait after all else is recorded.
func (w *world) summary() any {
	type run struct {
		Status         model.RunStatus
		Worker, Error  string
		Ends, Requeued int
		Open, Final    bool
	}
	runs := make(map[int64]run)
	for id, r := range w.runs {
		runs[id] = run{r.Status, r.worker, r.error, r.ends, r.requeued, r.Open(), r.final}
		if r.requeued > 0 {
			runs[id] = run{Requeued: r.requeued, Open: r.Open()}
		}
	}
	charged := make(map[string]float64)
	for group, seconds := range w.charged {
		charged[group] = math.Round(seconds) // events carry times a moment after those of the model
	}
	memory := make(map[int64]float64)
	for key, m := range w.memory {
		memory[key] = math.Round(m.Seconds)
	}
	records := maps.Clone(w.records)
	delete(records, waitKey)
	underway := 0
	for _, row := range w.work {
		if !row.Settled { // no event has the runtime of a failure, so the settled row stays until it expires
			underway++
		}
	}
	return []any{runs, underway, len(w.backlog), charged, w.pieces, records, memory, w.counted}
}

// In every order and partition of events into batches, with any repetition of batches, the runs, the ledger, the
// charges and the recorded runtimes end as after the events in order, each once. No run ends twice, in metrics
// neither, and nothing is charged twice.
func TestOrderAndRepetitionChangeNothing(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		ordered, shuffled := newWorld(), newWorld()
		var events []Outcome
		for n := range rapid.IntRange(1, 6).Draw(t, "messages") {
			id, d := draw(t, n)
			ordered.add(n, id, d)
			shuffled.add(n, id, d)
			ordered.apply(d.events)
			events = append(events, d.events...)
		}
		var batches [][]Outcome
		for rest := rapid.Permutation(events).Draw(t, "order"); len(rest) > 0; {
			size := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			batches = append(batches, rest[:size])
			rest = rest[size:]
		}
		for i, batch := range batches {
			shuffled.apply(batch)
			if rapid.Bool().Draw(t, "repeat") {
				shuffled.apply(batches[rapid.IntRange(0, i).Draw(t, "again")])
			}
		}
		if diff := cmp.Diff(ordered.summary(), shuffled.summary()); diff != "" {
			t.Fatalf("in order and at once (-), otherwise (+):\n%s", diff)
		}
		if most, got := ordered.records[waitKey], shuffled.records[waitKey]; got > most {
			t.Fatalf("%d waits are recorded of %d", got, most)
		}
		ends := 0
		for id, r := range shuffled.runs {
			ends += r.ends
			if r.ends > 1 || !r.Open() && !r.started.IsZero() && r.ended.Before(r.started) {
				t.Fatalf("run %d ended %d times, from %s to %s", id, r.ends, r.started, r.ended)
			}
		}
		if shuffled.shownEnds != ends || shuffled.shownStarts > len(shuffled.runs) {
			t.Fatalf("metrics show %d ends and %d starts of %d runs, of which %d ended", shuffled.shownEnds, shuffled.shownStarts, len(shuffled.runs), ends)
		}
	})
}
