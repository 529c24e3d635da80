package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// now is the current state that several pages share. Each part is read in the background.
type now struct {
	figures background[db.Figures]
	ended   background[map[ledger.EndedKey]*ledger.Ended]
	past    background[map[ledger.EndedKey]*series] // of the shortest range
	errors  map[string]*background[pastErrors]      // by the name of the range
	took    background[map[string]lanes.Sketch]     // by task type
	queues  background[[]status.Queue]
	groups  background[[]status.Group]
	lanes   background[[]status.Lane]
	hosters background[[]status.Hoster]
	counts  background[counts] // of problems, for the strip
}

// groupWaiting is the number up to which waiting tasks of a group are counted: there may be hundreds of groups.
const groupWaiting = 20

// newNow returns the parts before their first reading. Reading many queues takes seconds, as the broker is asked about
// each one.
func (d *Dashboard) newNow() *now {
	failed := map[string]*background[pastErrors]{}
	for i, of := range pastRanges {
		failed[of.Name] = &background[pastErrors]{name: "The errors", log: d.Log, every: 15 * time.Second, wait: Timeout, read: func(ctx context.Context) (pastErrors, error) {
			return d.readErrors(ctx, of)
		}}
		if i > 0 {
			failed[of.Name].every = time.Minute
		}
	}
	return &now{
		errors: failed,
		took:   background[map[string]lanes.Sketch]{name: "How long work takes", log: d.Log, every: time.Minute, wait: Timeout, read: d.readTook},
		figures: background[db.Figures]{log: d.Log, every: 5 * time.Second, wait: Timeout, read: func(ctx context.Context) (db.Figures, error) {
			return d.Reads.Figures(ctx, d.Reads.Now())
		}},
		ended:   background[map[ledger.EndedKey]*ledger.Ended]{log: d.Log, every: 5 * time.Second, wait: Timeout, read: d.Reads.EndedInHour},
		past:    background[map[ledger.EndedKey]*series]{name: "The last hours", log: d.Log, every: 15 * time.Second, wait: Timeout, read: d.readPast},
		queues:  background[[]status.Queue]{name: "The queues", log: d.Log, every: 5 * time.Second, wait: 2 * time.Second, read: d.readQueues},
		groups:  background[[]status.Group]{name: "The groups", log: d.Log, every: 10 * time.Second, wait: 2 * time.Second, read: d.readGroups},
		lanes:   background[[]status.Lane]{name: "The lanes", log: d.Log, every: 10 * time.Second, wait: 2 * time.Second, read: d.readLanes},
		counts:  background[counts]{name: "Problems", log: d.Log, every: stripEvery, wait: stripWait, read: d.readCounts},
		hosters: background[[]status.Hoster]{name: "The hosters", log: d.Log, every: 5 * time.Second, wait: 2 * time.Second, read: d.readHosters},
	}
}

func (d *Dashboard) readQueues(ctx context.Context) ([]status.Queue, error) {
	if d.Broker == nil {
		return nil, errNoBroker
	}
	known, err := dispatch.KnownQueues(ctx, d.Reads, d.Config.Lanes)
	if err != nil {
		return nil, err
	}
	return status.Queues(ctx, d.Reads, d.Broker, known, d.Config.Shares)
}

func (d *Dashboard) readGroups(ctx context.Context) (all []status.Group, err error) {
	c := d.Config
	for _, name := range slices.Sorted(maps.Keys(c.Shares)) {
		rows, err := status.Groups(ctx, d.Reads, c, name, groupWaiting)
		if errors.Is(err, model.ErrUnknownTaskType) {
			continue // daemons warn about it
		}
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

func (d *Dashboard) readLanes(ctx context.Context) (all []status.Lane, err error) {
	queues, err := dispatch.LanedQueues(ctx, d.Reads, d.Config.Lanes)
	for _, q := range queues {
		rows, err := status.Lanes(ctx, d.Reads, d.Broker, q.Lanes, d.Reads.Now())
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, err
}

func (d *Dashboard) readHosters(ctx context.Context) ([]status.Hoster, error) {
	if hosters := d.Config.Hosters; hosters.Any() {
		return status.Hosters(ctx, d.Reads, hosters, d.Reads.Now())
	}
	return nil, nil
}

// start starts readings of all parts of facts.
func (n *now) start(ctx context.Context) {
	for _, b := range []interface{ start(context.Context) }{&n.figures, &n.ended, &n.queues, &n.groups, &n.lanes, &n.hosters} {
		b.start(ctx)
	}
}

// forget makes all pages read their data again after a change.
func (d *Dashboard) forget() {
	n := d.now
	for _, b := range []interface{ forget() }{&n.figures, &n.ended, &n.past, &n.took, &n.queues, &n.groups, &n.lanes, &n.hosters, &d.data} {
		b.forget()
	}
	for _, b := range n.errors {
		b.forget()
	}
}

var errNoBroker = Errorf(503, "The configuration names no broker.")

// part is the time of a background part, and its problem.
type part struct {
	At      *time.Time `json:"at"`      // nil: not yet
	Problem string     `json:"problem"` // "" if nothing is wrong
}

// part returns the last value. It logs why the last reading failed.
func (b *background[T]) part(ctx context.Context, d *Dashboard) (T, part) {
	value, at, err := b.get(ctx)
	p := part{At: &at}
	if at.IsZero() {
		p.At = nil
	}
	shown, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		p.Problem = shown.Message
	case err != nil:
		if held, ok := d.unread.Log(b.name); ok {
			d.Log.Warn("a part of a page could not be read", "what", b.name, "error", pytext.OneLine(err).Error(), "not_logged_before", held)
		}
		p.Problem = b.name + " can't be read now; the log says why."
	case at.IsZero():
		p.Problem = b.name + " are being read."
	case b.old(at):
		p.Problem = b.name + " were read " + explain.Roughly(time.Since(at)) + " ago; there is no answer since."
	}
	return value, p
}

// unread returns the problems of parts.
func unread(parts ...part) []string {
	problems := []string{}
	for _, p := range parts {
		if p.Problem != "" {
			problems = append(problems, p.Problem)
		}
	}
	return problems
}

// facts returns the inputs of problems. If queues, groups, lanes or hosters can't be read, f.unread contains the
// reasons.
func (d *Dashboard) facts(ctx context.Context, now time.Time) (f facts, err error) {
	f.now = now
	d.now.start(ctx)
	if f.figures, err = d.now.figures.must(ctx); err != nil {
		return f, err
	}
	if f.ended, err = d.now.ended.must(ctx); err != nil {
		return f, err
	}
	if f.daemons, err = d.Reads.Daemons(ctx, maxDaemons); err != nil {
		return f, err
	}
	var queues, groups, lanes, hosters part
	f.queues, queues = d.now.queues.part(ctx, d)
	f.groups, groups = d.now.groups.part(ctx, d)
	f.lanes, lanes = d.now.lanes.part(ctx, d)
	f.hosters, hosters = d.now.hosters.part(ctx, d)
	f.unread = unread(queues, groups, lanes, hosters)
	return f, nil
}
