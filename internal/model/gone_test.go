package model_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
)

// A run is a full listing only if nothing speaks against it. Its first moment, less the margin, is the cutoff.
func TestCertainListings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time { return new(now.Add(time.Duration(minutes) * time.Minute)) }
	rule := model.DefaultGoneRule("gitweb")
	rule.Arguments = []string{"archs"}
	good := model.ListingRun{ID: 1, TaskType: "list-gitweb", Arguments: json.RawMessage(`{"args": [], "kwargs": {"url": "https://git.example/"}}`),
		Status: model.RunEventful, Scheduled: at(-60), Started: at(-50), Ended: at(-30)}
	with := func(change func(*model.ListingRun)) model.ListingRun {
		r := good
		change(&r)
		return r
	}
	args := func(kwargs string) model.ListingRun {
		return with(func(r *model.ListingRun) { r.Arguments = json.RawMessage(`{"args": [], "kwargs": ` + kwargs + `}`) })
	}
	for name, c := range map[string]struct {
		run   model.ListingRun
		end   int // minutes from now at which the lister recorded an end
		doubt string
	}{
		"full":                     {good, -30, ""},
		"uneventful":               {with(func(r *model.ListingRun) { r.Status = model.RunUneventful }), -30, ""},
		"failed":                   {with(func(r *model.ListingRun) { r.Status = model.RunFailed }), -30, "it ended as failed"},
		"lost":                     {with(func(r *model.ListingRun) { r.Status = model.RunLost }), -30, "it ended as lost"},
		"some pages":               {args(`{"max_pages": 2}`), -30, "its argument max_pages makes"},
		"few origins of each page": {args(`{"max_origins_per_page": 5}`), -30, "its argument max_origins_per_page makes"},
		"origins left disabled":    {args(`{"enable_origins": false}`), -30, "its argument enable_origins makes"},
		"incremental":              {args(`{"incremental": true}`), -30, "its argument incremental makes"},
		"a range":                  {args(`{"first_id": 1, "last_id": 9}`), -30, `its argument "first_id" may make`},
		"limits of none":           {args(`{"max_pages": null, "max_origins_per_page": 0, "enable_origins": true, "incremental": false, "instance": "a"}`), -30, ""},
		"a named argument":         {args(`{"archs": ["x"]}`), -30, ""},
		"positional arguments":     {with(func(r *model.ListingRun) { r.Arguments = json.RawMessage(`{"args": [1], "kwargs": {}}`) }), -30, "its task has positional"},
		"no JSON":                  {with(func(r *model.ListingRun) { r.Arguments = json.RawMessage(`[]`) }), -30, "its task has positional"},
		"no start":                 {with(func(r *model.ListingRun) { r.Started = nil }), -30, "its row lacks"},
		"no sending":               {with(func(r *model.ListingRun) { r.Scheduled = nil }), -30, "its row lacks"},
		"no end":                   {with(func(r *model.ListingRun) { r.Ended = nil }), -30, "its row lacks"},
		"a sending after the end":  {with(func(r *model.ListingRun) { r.Scheduled = at(-10) }), -30, "its dates contradict"},
		"a start after the end":    {with(func(r *model.ListingRun) { r.Started = at(-10) }), -30, "its dates contradict"},
		"an end to come":           {with(func(r *model.ListingRun) { r.Ended = at(30) }), 30, "its dates contradict"},
		"ended before":             {good, -90, "the lister recorded no end"},
		"ended after":              {good, -10, "the lister recorded no end"},
		"a clock a bit off":        {good, -22, ""},
	} {
		cutoff, doubt := rule.Certain(c.run, []time.Time{*at(-1000), *at(c.end)}, now)
		if !strings.HasPrefix(doubt, c.doubt) || (doubt == "") != (c.doubt == "") {
			t.Errorf("%s: doubt %q, want %q", name, doubt, c.doubt)
		}
		if want := *at(-70); doubt == "" && !cutoff.Equal(want) {
			t.Errorf("%s: cutoff %v, want %v", name, cutoff, want)
		}
	}
	early := with(func(r *model.ListingRun) { r.Ended = at(5) })
	if _, doubt := rule.Certain(early, []time.Time{*at(5)}, now); doubt != "" {
		t.Errorf("with an end to come within the margin: doubt %q", doubt)
	}
	if cutoff, _ := rule.Certain(with(func(r *model.ListingRun) { r.Started = at(-65) }), []time.Time{*at(-30)}, now); !cutoff.Equal(*at(-75)) {
		t.Errorf("with a start before the sending the cutoff is %v, want that start less the margin", cutoff)
	}
}

// A run belongs to the instance that it names, or whose address it lists.
func TestListingsOfInstances(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kwargs, instance string
		only, want       bool
	}{
		{`{"instance": "a"}`, "a", false, true},
		{`{"instance": "a", "url": "https://b/"}`, "b", true, false},
		{`{"url": "https://git.example:8080/x?y"}`, "git.example:8080", false, true},
		{`{"url": "https://git.example?p=/"}`, "git.example", false, true},
		{`{"url": "https://git.example"}`, "git.example:8080", true, false},
		{`{"url": "git.example"}`, "git.example", false, false},
		{`{"instance": null}`, "gnu", true, true},
		{`{}`, "gnu", false, false},
	} {
		run := model.ListingRun{Arguments: json.RawMessage(`{"kwargs": ` + c.kwargs + `}`)}
		if got := run.Lists(c.instance, c.only); got != c.want {
			t.Errorf("%s lists %s (only %v): %v", c.kwargs, c.instance, c.only, got)
		}
	}
	of := func(urls ...string) (runs []model.ListingRun) {
		for _, url := range urls {
			text, _ := json.Marshal(map[string]any{"kwargs": map[string]string{"url": url}})
			runs = append(runs, model.ListingRun{Arguments: text})
		}
		return append(runs, model.ListingRun{Arguments: json.RawMessage(`{}`)})
	}
	if urls := model.Elsewhere(of("https://a/x/", "http://a/x")); urls != nil {
		t.Errorf("one address counts as %v", urls)
	}
	if diff := cmp.Diff([]string{"a/x", "a/y"}, model.Elsewhere(of("https://a/y", "https://a/x/"))); diff != "" {
		t.Error(diff)
	}
}

// A part of the origins may go at once, and always a few, unless they are more than half.
func TestAllowedToGo(t *testing.T) {
	t.Parallel()
	rule := model.DefaultGoneRule("gitweb")
	for enabled, want := range map[int64]int64{0: 0, 1: 0, 3: 1, 8: 4, 40: 5, 100: 5, 1000: 50, 1_000_000: 50_000} {
		if got := rule.Allowed(enabled); got != want {
			t.Errorf("of %d: %d, want %d", enabled, got, want)
		}
	}
	rule.MaxShare, rule.Few = 0, 0
	if got := rule.Allowed(1000); got != 0 {
		t.Errorf("without a share, %d may go", got)
	}
	rule.MaxShare = 1
	if got := rule.Allowed(1000); got != 1000 {
		t.Errorf("with the whole share, %d of 1,000 may go", got)
	}
}

// The rule of an instance takes precedence over that of its lister.
func TestRuleOfInstance(t *testing.T) {
	t.Parallel()
	g := model.GoneOrigins{"gitlab": {Few: 1, FullTaskTypes: []string{"b", "a"}}, "gitlab/x": {Few: 2, FullTaskTypes: []string{"a"}}}
	for instance, want := range map[string]int{"x": 2, "y": 1} {
		if r, ok := g.Rule(model.Lister{Name: "gitlab", InstanceName: instance}); !ok || r.Few != want {
			t.Errorf("%s: %+v %v", instance, r, ok)
		}
	}
	if _, ok := g.Rule(model.Lister{Name: "gitea", InstanceName: "x"}); ok {
		t.Error("a lister without a rule has one")
	}
	if diff := cmp.Diff([]string{"a", "b"}, g.TaskTypes([]model.TaskType{{Type: "c"}, {Type: "b"}, {Type: "a"}})); diff != "" {
		t.Error(diff)
	}
}

// Task types that list no whole instance, whatever their names, are never those of full listings.
func TestTaskTypesOfNoFullListing(t *testing.T) {
	t.Parallel()
	for _, taskType := range []string{"list-github-full", "list-gitea-full", "list-forgejo-full", "list-gogs-full", "list-gitlab-incremental"} {
		if model.NeverFull(taskType) == "" {
			t.Errorf("a run of %s may be a full listing", taskType)
		}
	}
	if why := model.NeverFull("list-gitlab-full"); why != "" {
		t.Errorf("a run of list-gitlab-full is no full listing: %s", why)
	}
}

// The task types of a lister begin with its name in lower case, as a whole word, or are named by its rule.
func TestTaskTypesOfLister(t *testing.T) {
	t.Parallel()
	r := model.GoneRule{FullTaskTypes: []string{"list-all"}}
	for taskType, want := range map[string]bool{"list-gnu": true, "list-gnu-full": true, "list-all": true, "list-gnuplot": false, "list-gitlab": false} {
		if got := r.ListsFor("GNU", taskType); got != want {
			t.Errorf("%s lists GNU: %v, want %v", taskType, got, want)
		}
	}
}
