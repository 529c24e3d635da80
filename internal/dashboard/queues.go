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

var queuesPage = Page{Path: "/queues", Title: "Queues", Menu: "Queues", Template: "queues.html", Fragments: []string{"queues", "groups", "lanes"}, Data: queuesOf}

var queuePage = Page{Path: "/queue", Title: "Queue", Template: "queue.html", Fragments: []string{"queue", "groups", "lanes"}, Data: queueOf}

// queuePath is the address of the page of a queue, from the base.
func queuePath(name string) string { return "/queue?name=" + url.QueryEscape(name) }

// queuesData has the queues whose names or task types contain a word.
type queuesData struct {
	Word   string         `json:"word"`
	Queues []status.Queue `json:"queues"` // maxRows at most
	Found  int            `json:"found"`
	Part   part           `json:"read"`
	Groups []status.Group `json:"groups"`
	Lanes  []status.Lane  `json:"lanes"`
}

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
	q.Groups, q.Lanes = r.groupsAndLanes(ctx, func(queue, taskType string) bool {
		return strings.Contains(queue, q.Word) || strings.Contains(taskType, q.Word)
	})
	return q, nil
}

// groupsAndLanes returns those of some queues; of each maxRows at most.
func (d *Dashboard) groupsAndLanes(ctx context.Context, of func(queue, taskType string) bool) (groups []status.Group, lanes []status.Lane) {
	allGroups, _, _ := d.now.groups.get(ctx)
	allLanes, _, _ := d.now.lanes.get(ctx)
	groups = slices.DeleteFunc(slices.Clone(allGroups), func(g status.Group) bool { return !of(g.Queue, g.TaskType) })
	lanes = slices.DeleteFunc(slices.Clone(allLanes), func(l status.Lane) bool { return !of(l.Queue, l.TaskType) })
	return groups[:min(len(groups), maxRows)], lanes[:min(len(lanes), maxRows)]
}

// queueData is what is known of a queue.
type queueData struct {
	Name   string         `json:"name"`
	Queue  *status.Queue  `json:"queue"` // nil: it does not exist, or is not known yet
	Part   part           `json:"read"`
	Groups []status.Group `json:"groups"`
	Lanes  []status.Lane  `json:"lanes"`
	Past   []pastShare    `json:"past"`
	Since  []time.Time    `json:"since"` // when the parts of Past begin
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
	q.Groups, q.Lanes = r.groupsAndLanes(ctx, func(queue, taskType string) bool {
		return queue == q.Name || laneSet != "" && taskType == laneSet
	})
	if len(q.Groups) == 0 {
		return q, nil
	}
	var err error
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
