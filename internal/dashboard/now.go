package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// now is what several pages show of the present, each read in the background.
type now struct {
	figures background[db.Figures]
	ended   background[map[db.EndedKey]*db.Ended]
	queues  background[[]status.Queue]
	groups  background[[]status.Group]
	lanes   background[[]status.Lane]
	hosters background[[]status.Hoster]
}

// groupWaiting bounds what is counted of the waiting work of a group: there may be hundreds.
const groupWaiting = 20

// newNow prepares what is read. A reading of many queues takes seconds: the broker is asked for
// each.
func (d *Dashboard) newNow() *now {
	n := &now{}
	n.figures.log, n.ended.log, n.queues.log, n.groups.log, n.lanes.log, n.hosters.log = d.Log, d.Log, d.Log, d.Log, d.Log, d.Log
	n.figures.every, n.ended.every, n.queues.every, n.groups.every, n.lanes.every, n.hosters.every = 5*time.Second, 5*time.Second, 5*time.Second, 10*time.Second, 10*time.Second, 5*time.Second
	n.figures.wait, n.ended.wait, n.queues.wait, n.groups.wait, n.lanes.wait, n.hosters.wait = Timeout, Timeout, 2*time.Second, 2*time.Second, 2*time.Second, 2*time.Second
	n.figures.read = func(ctx context.Context) (db.Figures, error) { return d.Reads.Figures(ctx, d.Reads.Now()) }
	n.ended.read = func(ctx context.Context) (map[db.EndedKey]*db.Ended, error) { return d.Reads.EndedInHour(ctx) }
	n.queues.read = func(ctx context.Context) ([]status.Queue, error) {
		if d.Broker == nil {
			return nil, errNoBroker
		}
		known, err := daemons.KnownQueues(ctx, d.Reads, d.Config())
		if err != nil {
			return nil, err
		}
		return status.Queues(ctx, d.Reads, d.Broker, known, d.Config().Shares)
	}
	n.groups.read = func(ctx context.Context) (all []status.Group, err error) {
		c := d.Config()
		for _, name := range slices.Sorted(maps.Keys(c.Shares)) {
			rows, err := status.Groups(ctx, d.Reads, c, name, groupWaiting)
			if errors.Is(err, model.ErrUnknownTaskType) {
				continue // daemons warn of it
			}
			if err != nil {
				return nil, err
			}
			all = append(all, rows...)
		}
		return all, nil
	}
	n.lanes.read = func(ctx context.Context) (all []status.Lane, err error) {
		queues, err := daemons.LanedQueues(ctx, d.Reads, d.Config().Lanes)
		for _, q := range queues {
			rows, err := status.Lanes(ctx, d.Reads, d.Broker, q.Lanes, d.Reads.Now())
			if err != nil {
				return nil, err
			}
			all = append(all, rows...)
		}
		return all, err
	}
	n.hosters.read = func(ctx context.Context) ([]status.Hoster, error) {
		if hosters := d.Config().Hosters; hosters.Any() {
			return status.Hosters(ctx, d.Reads, hosters, d.Reads.Now())
		}
		return nil, nil
	}
	return n
}

// forget has all that pages show read anew: something was changed.
func (d *Dashboard) forget() {
	d.now.figures.forget()
	d.now.ended.forget()
	d.now.queues.forget()
	d.now.groups.forget()
	d.now.lanes.forget()
	d.now.hosters.forget()
	d.data.forget()
}

var errNoBroker = Errorf(503, "The configuration names no broker.")

// part is what is shown of something read in the background: when it was read, and what is
// wrong with that.
type part struct {
	At      *time.Time `json:"at"`      // nil: not yet
	Problem string     `json:"problem"` // "" if it is well
}

func (d *Dashboard) partOf(at time.Time, err error, what string) part {
	p := part{At: &at}
	if at.IsZero() {
		p.At = nil
	}
	told, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		p.Problem = told.Message
	case err != nil:
		if held, ok := d.unread.Log(what); ok {
			d.Log.Warn("a part of a page could not be read", "what", what, "error", pytext.OneLine(err).Error(), "not_logged_before", held)
		}
		p.Problem = what + " can't be read now; the log says why."
	case at.IsZero():
		p.Problem = what + " are being read."
	}
	return p
}

// unread returns what is wrong with parts, in words.
func unread(parts ...part) []string {
	problems := []string{}
	for _, p := range parts {
		if p.Problem != "" {
			problems = append(problems, p.Problem)
		}
	}
	return problems
}

func (d *Dashboard) queues(ctx context.Context) ([]status.Queue, part) {
	rows, at, err := d.now.queues.get(ctx)
	return rows, d.partOf(at, err, "The queues")
}

func (d *Dashboard) groups(ctx context.Context) ([]status.Group, part) {
	rows, at, err := d.now.groups.get(ctx)
	return rows, d.partOf(at, err, "The groups")
}

func (d *Dashboard) lanes(ctx context.Context) ([]status.Lane, part) {
	rows, at, err := d.now.lanes.get(ctx)
	return rows, d.partOf(at, err, "The lanes")
}

func (d *Dashboard) hosters(ctx context.Context) ([]status.Hoster, part) {
	rows, at, err := d.now.hosters.get(ctx)
	return rows, d.partOf(at, err, "The hosters")
}

// facts returns what problems are found in. Of the broker, groups and lanes it says what can't be read.
func (d *Dashboard) facts(ctx context.Context, now time.Time) (f facts, err error) {
	f.now = now
	if f.figures, err = d.now.figures.must(ctx); err != nil {
		return f, err
	}
	if f.daemons, err = d.Reads.Daemons(ctx, maxDaemons); err != nil {
		return f, err
	}
	var queues, groups, lanes, hosters part
	f.queues, queues = d.queues(ctx)
	f.groups, groups = d.groups(ctx)
	f.lanes, lanes = d.lanes(ctx)
	f.hosters, hosters = d.hosters(ctx)
	f.unread = unread(queues, groups, lanes, hosters)
	return f, nil
}
