package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/status"
)

var queuesPage = Page{Path: "/queues", Title: "Queues", Menu: "Queues", Template: "queues.html", Fragments: []string{"queues", "groups", "lanes", "hosters"}, Data: queuesOf}

var queuePage = Page{Path: "/queue", Title: "Queue", Template: "queue.html", Fragments: []string{"queue", "why", "groups", "lanes"}, Data: queueOf}

// queuePath is the address of the page of a queue, from the base.
func queuePath(name string) string { return "/queue?name=" + url.QueryEscape(name) }

// queuesData has the queues whose names or task types contain a word.
type queuesData struct {
	Word   string         `json:"word"`
	Queues []status.Queue `json:"queues"` // maxRows at most
	Found  int            `json:"found"`
	Part   part           `json:"read"`
	groupsAndLanes
	Hosters []status.Hoster `json:"hosters"`
}

// groupsAndLanes are those of some queues, of each maxRows at most.
type groupsAndLanes struct {
	Groups []status.Group `json:"groups"`
	Lanes  []status.Lane  `json:"lanes"`
	Unread []string       `json:"not_read"` // what can't be told of them now, in words
}

// MostWaiting is how much is counted of what waits of a group.
func (groupsAndLanes) MostWaiting() int { return groupWaiting }

func queuesOf(ctx context.Context, r *Request) (any, error) {
	rows, part := r.queues(ctx)
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
	hosters, hostersPart := r.hosters(ctx)
	q.Hosters = hosters[:min(len(hosters), maxRows)]
	q.Unread = append(q.Unread, unread(hostersPart)...)
	return q, nil
}

func (d *Dashboard) groupsAndLanesOf(ctx context.Context, of func(queue, taskType string) bool) (g groupsAndLanes) {
	allGroups, groups := d.groups(ctx)
	allLanes, lanes := d.lanes(ctx)
	g.Unread = unread(groups, lanes)
	g.Groups = slices.DeleteFunc(slices.Clone(allGroups), func(g status.Group) bool { return !of(g.Queue, g.TaskType) })
	g.Lanes = slices.DeleteFunc(slices.Clone(allLanes), func(l status.Lane) bool { return !of(l.Queue, l.TaskType) })
	g.Groups, g.Lanes = g.Groups[:min(len(g.Groups), maxRows)], g.Lanes[:min(len(g.Lanes), maxRows)]
	return g
}

// queueData is what is known of a queue.
type queueData struct {
	Name  string        `json:"name"`
	Queue *status.Queue `json:"queue"` // nil: it does not exist, or is not known yet
	Part  part          `json:"read"`
	Why   []Problem     `json:"why"` // what may hold it up
	groupsAndLanes
	Past  []pastShare `json:"past"`
	Since []time.Time `json:"since"` // when the parts of Past begin
}

// PageTitle is the title of the page.
func (q queueData) PageTitle() string { return "Queue " + q.Name }

// pastShare is what a group used, in parts of 1 of what all did, in each of some times, the
// oldest first.
type pastShare struct {
	Group string    `json:"group"`
	Parts []float64 `json:"parts"`
}

func queueOf(ctx context.Context, r *Request) (any, error) {
	q := queueData{Name: r.Word("name")}
	if q.Name == "" {
		return nil, Errorf(http.StatusBadRequest, "Which queue? The address has no name.")
	}
	rows, part := r.queues(ctx)
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
	var err error
	if q.Why, err = r.holdsUp(ctx, q.Name, laneSet, q.Queue); err != nil || len(q.Groups) == 0 {
		return q, err
	}
	q.Since, q.Past, err = r.pastShares(ctx, q.Name)
	return q, err
}

const (
	pastTimes  = 6
	pastLength = 30 * time.Minute
)

// pastShares returns what the groups of a queue used in each of the last half hours.
func (r *Request) pastShares(ctx context.Context, queue string) (since []time.Time, past []pastShare, err error) {
	used := map[string]*[pastTimes + 1]float64{} // seconds since then; nothing since now
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
