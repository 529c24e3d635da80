package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/status"
)

var queuesPage = Page{Path: "/queues", Title: "Queues", Menu: "Queues", Template: "queues.html", Query: []string{"q"}, Fragments: []string{"queues", "groups", "lanes", "hosters"}, Data: queuesOf}

var queuePage = Page{Path: "/queue", Title: "Queue", Template: "queue.html", Query: []string{"name", "range"}, Fragments: []string{"queue", "why", "over-time", "groups", "lanes"}, Data: queueOf}

// queuePath returns the address of the page of a queue, from the base.
func queuePath(name string) string { return address("/queue", "name", name) }

// queuesData contains the queues whose names or task types contain Word.
type queuesData struct {
	Word   string         `json:"word"`
	Queues []status.Queue `json:"queues"` // maxRows at most
	Found  int            `json:"found"`
	Part   part           `json:"read"`
	groupsAndLanes
	Hosters      []status.Hoster `json:"hosters"`       // at most maxRows
	HosterCounts hosterCounts    `json:"hoster_counts"` // of all
}

// groupsAndLanes contains the groups and lanes of some queues, at most maxRows of each.
type groupsAndLanes struct {
	Groups []status.Group `json:"groups"`
	Lanes  []status.Lane  `json:"lanes"`
	Unread []string       `json:"not_read"` // reasons why parts are missing
}

func (groupsAndLanes) MostWaiting() int { return groupWaiting }

func queuesOf(ctx context.Context, r *Request) (any, error) {
	r.now.start(ctx)
	rows, part := r.now.queues.part(ctx, r.Dashboard)
	q := queuesData{Word: r.Word("q"), Part: part, Queues: []status.Queue{}}
	for _, row := range rows {
		if strings.Contains(row.Queue, q.Word) || strings.Contains(row.TaskType, q.Word) {
			q.Queues = append(q.Queues, row)
		}
	}
	q.Found = len(q.Queues)
	q.Queues = q.Queues[:min(q.Found, maxRows)]
	q.groupsAndLanes = r.groupsAndLanesOf(ctx, func(queue, taskType string) bool {
		return strings.Contains(queue, q.Word) || strings.Contains(taskType, q.Word)
	})
	q.noteBuild(ctx, r.Dashboard, q.Queues)
	hosters, hostersPart := r.now.hosters.part(ctx, r.Dashboard)
	q.Hosters, q.HosterCounts = hosters[:min(len(hosters), maxRows)], countHosters(hosters)
	q.Unread = append(q.Unread, unread(hostersPart)...)
	return q, nil
}

func (d *Dashboard) groupsAndLanesOf(ctx context.Context, of func(queue, taskType string) bool) (g groupsAndLanes) {
	allGroups, groups := d.now.groups.part(ctx, d)
	allLanes, lanes := d.now.lanes.part(ctx, d)
	g.Unread = unread(groups, lanes)
	g.Groups = slices.DeleteFunc(slices.Clone(allGroups), func(g status.Group) bool { return !of(g.Queue, g.TaskType) })
	g.Lanes = slices.DeleteFunc(slices.Clone(allLanes), func(l status.Lane) bool { return !of(l.Queue, l.TaskType) })
	g.Groups, g.Lanes = g.Groups[:min(len(g.Groups), maxRows)], g.Lanes[:min(len(g.Lanes), maxRows)]
	return g
}

// noteBuild adds to Unread that candidates are being built, if a queue with shares is shown.
func (g *groupsAndLanes) noteBuild(ctx context.Context, d *Dashboard, queues []status.Queue) {
	shared := slices.ContainsFunc(queues, func(q status.Queue) bool {
		_, ok := d.Config.Shares[q.TaskType]
		return ok
	})
	if figures, at, _ := d.now.figures.get(ctx); shared && !at.IsZero() && figures.Build.Part() < 1 {
		g.Unread = append(g.Unread, "Candidates are being built: origins don't count as waiting until then.")
	}
}

type queueData struct {
	Name  string        `json:"name"`
	Queue *status.Queue `json:"queue"` // nil: it is missing or not read yet
	Part  part          `json:"read"`
	Why   problems      `json:"why"` // possible causes of a standstill
	groupsAndLanes
	Range  string      `json:"range"`
	Ranges []rangeLink `json:"-"`
	Levels []levels    `json:"over_time"`
	Past   []pastShare `json:"past"`
	Since  []time.Time `json:"since"` // when the periods of Past begin
}

func (q queueData) PageTitle() string { return "Queue " + q.Name }

// pastShare is a group's part of the queue's use in some periods, the oldest first, from 0 to 1.
type pastShare struct {
	Group string    `json:"group"`
	Parts []float64 `json:"parts"`
}

func queueOf(ctx context.Context, r *Request) (any, error) {
	q := queueData{Name: r.Word("name")}
	if q.Name == "" {
		return nil, Errorf(http.StatusBadRequest, "The address has no name of a queue.")
	}
	of, err := r.rangeOf()
	if err != nil {
		return nil, err
	}
	r.now.start(ctx)
	q.Range, q.Ranges = of.Name, of.links("/queue", "name", q.Name)
	rows, part := r.now.queues.part(ctx, r.Dashboard)
	q.Part = part
	if at := slices.IndexFunc(rows, func(row status.Queue) bool { return row.Queue == q.Name }); at >= 0 {
		q.Queue = &rows[at]
	}
	laneSet := ""
	if q.Queue != nil {
		laneSet, _, _ = strings.Cut(q.Queue.Lane, " ")
	}
	q.groupsAndLanes = r.groupsAndLanesOf(ctx, func(queue, taskType string) bool {
		return queue == q.Name || laneSet != "" && taskType == laneSet
	})
	if q.Queue != nil {
		q.noteBuild(ctx, r.Dashboard, []status.Queue{*q.Queue})
	}
	if q.Levels, err = r.queueLevels(ctx, of, q.Name); err != nil {
		return nil, err
	}
	if len(q.Groups) > 0 {
		if q.Since, q.Past, err = r.pastShares(ctx, q.Name); err != nil {
			return nil, err
		}
	}
	q.Why, err = r.holdsUp(ctx, q.Name, laneSet, q.Queue) // the last one, as it may take explainTime
	return q, err
}

const (
	pastTimes  = 6
	pastLength = 30 * time.Minute
)

// pastShares returns the parts of a queue's groups in each of the last pastTimes half hours.
func (r *Request) pastShares(ctx context.Context, queue string) (since []time.Time, past []pastShare, err error) {
	used := map[string]*[pastTimes + 1]float64{} // by group: seconds from each time until now
	for i := range pastTimes {
		at := r.Now.Add(-time.Duration(pastTimes-i) * pastLength).Truncate(time.Minute)
		since = append(since, at)
		history, err := r.Reads.ShareHistory(ctx, queue, at)
		if err != nil {
			return nil, nil, err
		}
		for group, use := range history {
			if used[group] == nil {
				used[group] = new([pastTimes + 1]float64)
			}
			used[group][i] = use.Seconds
		}
	}
	var all [pastTimes]float64
	for _, u := range used {
		for i := range all {
			all[i] += u[i] - u[i+1]
		}
	}
	for group, u := range used {
		p := pastShare{Group: group, Parts: make([]float64, pastTimes)}
		for i := range all {
			if all[i] > 0 {
				p.Parts[i] = (u[i] - u[i+1]) / all[i]
			}
		}
		past = append(past, p)
	}
	slices.SortFunc(past, func(a, b pastShare) int { return strings.Compare(a.Group, b.Group) })
	return since, past[:min(len(past), maxRows)], nil
}
