package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// move sends Count messages of a lane's backlog to a lane's queue, then `fresh` of those just claimed for that backlog.
// The lane itself gets the oldest. Another lane gets those with the longest expected time.
type move struct {
	lanes.Send
	fresh int
}

// route sets the queue or backlog of each message just claimed for a queue with lanes, and returns the parts of the
// backlogs to send. expected is the expected runtime of each message in seconds, 0 if unknown. states are those of
// the lanes before the claim; route changes them. more reports whether there may be unclaimed work.
//
// A message goes to the first lane whose limit its expected runtime fits. It waits at the end of that lane's
// backlog, unless there is a slot for it at once. The slot is one of its own lane, or one that a later lane lends
// (package lanes); the slowest messages get these.
func route(l *LaneSet, states []lanes.State, more bool, work []ledger.Work, expected []float64) []move {
	waiting := make([]int, len(states)) // by backlog, before the claim
	for i, s := range states {
		waiting[i] = s.TimedOut + s.FirstTries
	}
	fresh := make([][]*ledger.Work, len(states)) // just claimed, by lane
	limits := l.limits()
	for i := range work {
		w := &work[i]
		lane := lanes.Choose(limits, expected[i], w.Tried)
		w.Lane.Set, w.Lane.Number, w.Lane.Backlog, w.Lane.Expected = l.Name, lane, true, expected[i]
		if lane > 0 && expected[i] > 0 && !w.Tried {
			w.Lane.Below = limits[lane-1].Seconds()
		}
		states[lane].FirstTries++
		fresh[lane] = append(fresh[lane], w)
	}
	var moves []move
	for _, send := range lanes.Fill(states, lanes.Sizes(states, more)) {
		m := move{Send: send}
		m.Count = min(send.Count, waiting[send.From])
		m.fresh = send.Count - m.Count
		waiting[send.From] -= m.Count
		var next []*ledger.Work
		next, fresh[send.From] = take(fresh[send.From], m.fresh, send.To != send.From)
		for _, w := range next {
			l.assign(w, send.To)
		}
		moves = append(moves, m)
	}
	return moves
}

// take splits the first n messages off, or the n slowest ones. The rest keeps its order.
func take(work []*ledger.Work, n int, slowest bool) (taken, rest []*ledger.Work) {
	if !slowest || n == 0 {
		return work[:n], work[n:]
	}
	taken = slices.SortedStableFunc(slices.Values(work), func(a, b *ledger.Work) int { return cmp.Compare(b.Lane.Expected, a.Lane.Expected) })[:n]
	gone := make(map[*ledger.Work]bool, n)
	for _, w := range taken {
		gone[w] = true
	}
	return taken, slices.DeleteFunc(work, func(w *ledger.Work) bool { return gone[w] })
}

// assign routes a message to the queue of a lane.
func (l *LaneSet) assign(w *ledger.Work, to int) {
	lane := l.Lanes[to]
	if w.Lane.Number != to {
		w.Lane.Number, w.Lane.Below = to, 0 // chosen without a prediction
	}
	w.Queue, w.Lane.Backlog, w.Lane.Name, w.Lane.Left, w.Lane.Retried = lane.Queue, false, lane.Name, l.left(to), lane.Retry
	w.Lane.SoftLimit, w.Lane.HardLimit = lane.SoftTimeLimit, lane.TimeLimit
}

// predict loads the history of work, sets its LaneFeatures, and returns the expected runtime of each message in
// seconds, 0 if unknown.
func (s *Slots) predict(ctx context.Context, tx *db.Tx, l *LaneSet, work []ledger.Work) ([]float64, error) {
	if len(work) == 0 {
		return nil, nil
	}
	keys, urls, updated := make([]string, len(work)), make([]string, len(work)), make([]float64, len(work))
	listers := make(map[string]bool)
	for i := range work {
		lane := &work[i].Lane
		lane.Lister, urls[i] = origin(&work[i])
		lane.URL, lane.VisitType = urls[i], l.VisitType
		updated[i] = work[i].Updated
		keys[i] = memoryKey(l.TaskType, urls[i], &work[i])
		listers[lane.Lister] = true
	}
	features, err := tx.LaneFeatures(ctx, keys, urls, l.VisitType, updated)
	if err != nil {
		return nil, err
	}
	sketches, err := tx.LaneSketches(ctx, l.Name, slices.Collect(maps.Keys(listers)), s.now(), lanes.SketchHalfLife)
	if err != nil {
		return nil, err
	}
	expected := make([]float64, len(work))
	for i, f := range features {
		f.Lister = work[i].Lane.Lister
		work[i].Lane.LaneFeatures = f
		if f.Memory != nil {
			expected[i] = f.Memory.Expect(f.Behind)
		} else {
			expected[i] = lanes.Typical(sketches[ledger.SketchKey{Lister: f.Lister, First: f.First}], sketches[ledger.SketchKey{First: f.First}])
		}
	}
	return expected, nil
}

// memoryKey returns the key of the recorded runtimes of work: its type, and the origin that it visits, or else all
// its arguments.
func memoryKey(taskType, url string, w *ledger.Work) string {
	if url != "" {
		return taskType + " " + url
	}
	return taskType + " " + string(w.Args) + string(w.Kwargs)
}

// textArgument reads a keyword argument as PostgreSQL's ->> does: null as "", and a value other than a text as JSON.
func textArgument(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || string(raw) == "null" || raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// maxIndexed is the length limit of the ledger's indexes for a text, in bytes. Names of listers and URLs of origins
// are shorter.
const maxIndexed = 2000

// origin reads the lister's name and the URL from a message's keyword arguments. It returns "" for a missing one,
// and for one that is too long for an index.
func origin(w *ledger.Work) (lister, url string) {
	var kwargs struct {
		Lister json.RawMessage `json:"lister_name"`
		URL    json.RawMessage `json:"url"`
	}
	_ = json.Unmarshal(w.Kwargs, &kwargs) // arguments that are no object have neither
	lister, url = textArgument(kwargs.Lister), textArgument(kwargs.URL)
	if len(lister) > maxIndexed {
		lister = ""
	}
	if len(url) > maxIndexed {
		url = ""
	}
	return lister, url
}
