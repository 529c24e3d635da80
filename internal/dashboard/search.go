package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

var searchPage = Page{Path: "/search", Title: "Search", Template: "search.html", Query: []string{"find"}, Data: search}

// searchData are the matches of a text in all kinds of objects.
type searchData struct {
	Find  string   `json:"find"`
	Found []match  `json:"found"`
	More  bool     `json:"more"`  // some kinds have more matches than are listed
	Tried []string `json:"tried"` // the kinds that were searched, in words

	exact []match // of Found
}

// match is an object that a search found.
type match struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	Page string `json:"page"` // from the base
}

// LeadsTo returns the page of the only exact match, or of the only match; "" if there are several or none.
func (d searchData) LeadsTo() string {
	switch {
	case len(d.exact) == 1:
		return d.exact[0].Page
	case len(d.exact) == 0 && len(d.Found) == 1:
		return d.Found[0].Page
	}
	return ""
}

const (
	maxMatches = 20   // of each kind
	maxFind    = 2000 // longest text, in bytes
)

// finder searches for a text. Each kind is an index look-up, or a search in a short list of names.
type finder struct {
	*Request
	data *searchData
	text string
}

func search(ctx context.Context, r *Request) (any, error) {
	d := searchData{Find: r.Word("find"), Found: []match{}, Tried: []string{}}
	if d.Find == "" {
		return d, nil
	}
	if len(d.Find) > maxFind {
		return nil, Errorf(http.StatusBadRequest, "What is searched for has more than %d bytes.", maxFind)
	}
	f := finder{r, &d, d.Find}
	for _, find := range []func(ctx context.Context) error{f.numbers, f.celeryID, f.names, f.graphs, f.origins} {
		if err := find(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (f finder) tried(format string, args ...any) {
	f.data.Tried = append(f.data.Tried, fmt.Sprintf(format, args...))
}

// add adds a match, up to maxMatches of its kind.
func (f finder) add(exact bool, kind, text, page string) {
	m := match{kind, text, page}
	if slices.Contains(f.data.Found, m) {
		return
	}
	n := 0
	for _, other := range f.data.Found {
		if other.Kind == kind {
			n++
		}
	}
	if exact {
		f.data.exact = append(f.data.exact, m)
	} else if n >= maxMatches {
		f.data.More = true
		return
	}
	f.data.Found = append(f.data.Found, m)
}

// numbers finds the task and the graph with a number.
func (f finder) numbers(ctx context.Context) error {
	id, err := strconv.ParseInt(f.text, 10, 64)
	if err != nil || id < 1 {
		return nil
	}
	f.tried("the number of a task, and that of a graph")
	found, err := f.Reads.FindTasks(ctx, db.TaskSearch{IDs: []int64{id}}, 0, 1)
	if err != nil {
		return err
	}
	for _, t := range found.Tasks {
		f.add(true, "task", fmt.Sprintf("task %d, %s", t.ID, t.Type), fmt.Sprintf("/tasks/%d", t.ID))
	}
	of, err := f.Reads.FindGraphs(ctx, graphs.Search{}, max(id, id+1), 1, 1)
	for _, g := range of.Graphs {
		if g.ID == id {
			f.add(true, "graph", fmt.Sprintf("graph %d %s", g.ID, g.Name), fmt.Sprintf("/graphs/%d", g.ID))
		}
	}
	return err
}

// celeryID finds the run or the visit with a Celery id.
func (f finder) celeryID(ctx context.Context) error {
	if _, err := uuid.Parse(f.text); err != nil {
		return nil
	}
	f.tried("Celery's id of a run of a task, or of a visit of a group, lane or hoster")
	runs, err := f.Reads.OfCeleryID(ctx, f.text)
	for _, r := range runs {
		switch {
		case r.Task > 0:
			f.add(true, "task", fmt.Sprintf("task %d, of run %s", r.Task, f.text), fmt.Sprintf("/tasks/%d", r.Task))
		case r.URL != "":
			f.add(true, "origin", r.URL, address("/origin", "url", r.URL))
		}
	}
	return err
}

// names finds queues, task types, visit types and listers by a part of their names.
func (f finder) names(ctx context.Context) error {
	f.tried("a queue, a task type, a visit type or a lister, by a part of its name")
	types, err := f.Reads.TaskTypes(ctx)
	if err != nil {
		return err
	}
	for _, tt := range types {
		visitType, visits := model.LoadedVisitType(tt.Type)
		if strings.Contains(tt.Type, f.text) {
			f.add(tt.Type == f.text || visits && visitType == f.text, "task type", tt.Type, typePath(tt.Type))
		}
	}
	known, err := dispatch.KnownQueues(ctx, f.Reads, f.Config.Lanes)
	if err != nil {
		return err
	}
	for _, q := range known {
		if strings.Contains(q.Name, f.text) {
			f.add(q.Name == f.text, "queue", q.Name, queuePath(q.Name))
		}
	}
	listers, err := f.Reads.Listers(ctx)
	for _, l := range listers {
		if strings.Contains(l.Name, f.text) || strings.Contains(l.InstanceName, f.text) {
			f.add(false, "lister", l.Name+" "+l.InstanceName, address("/listers", "q", l.InstanceName))
		}
	}
	return err
}

// graphs finds graphs by a part of their names, among the newest ones.
func (f finder) graphs(ctx context.Context) error {
	f.tried("a graph, by a part of its name: the newest 20,000")
	found, err := f.Reads.FindGraphs(ctx, graphs.Search{Name: f.text}, 0, maxMatches, 1)
	for _, g := range found.Graphs {
		f.add(g.Name == f.text, "graph", fmt.Sprintf("graph %d %s", g.ID, g.Name), fmt.Sprintf("/graphs/%d", g.ID))
	}
	f.data.More = f.data.More || len(found.Graphs) == maxMatches
	return err
}

// origins finds origins by their URL, or by its beginning.
func (f finder) origins(ctx context.Context) error {
	prefixes := []string{f.text}
	if !strings.Contains(f.text, ":") {
		prefixes = nil
		for _, scheme := range []string{"https://", "http://", "git://", "svn://"} {
			prefixes = append(prefixes, scheme+f.text)
		}
	}
	f.tried("the URL of an origin, or how it begins: %s", strings.Join(prefixes, ", "))
	for _, prefix := range prefixes {
		exact, err := f.Reads.OriginsOf(ctx, prefix, 1)
		if err != nil {
			return err
		}
		for _, o := range exact {
			f.add(true, "origin", o.URL, address("/origin", "url", o.URL))
		}
		found, next, err := f.Reads.FindOrigins(ctx, prefix, nil, maxMatches)
		if err != nil {
			return err
		}
		for _, o := range found {
			f.add(false, "origin", o.URL, address("/origin", "url", o.URL))
		}
		f.data.More = f.data.More || next != nil
	}
	return f.partsOfURLs(ctx)
}

// minPart is the shortest part of a URL that is searched, in bytes.
const minPart = 3

// partsOfURLs finds origins by a part of their URLs, such as user/repository. Without a slash, it searches only if nothing
// else matches.
func (f finder) partsOfURLs(ctx context.Context) error {
	part := strings.TrimPrefix(f.text, "/")
	if strings.Contains(part, "://") || len(part) < minPart || !strings.Contains(part, "/") && len(f.data.Found) > 0 {
		return nil
	}
	f.tried("the path of a URL, or how it begins, on the hosts of listers; a part of a URL among the last 10,000 failures")
	urls, err := f.Reads.OriginsByPart(ctx, part, maxMatches)
	for _, url := range urls {
		f.add(false, "origin", url, address("/origin", "url", url))
	}
	f.data.More = f.data.More || len(urls) == maxMatches
	return err
}
