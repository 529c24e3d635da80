package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// GoneOrigins has the rules by which origins are disabled that a full listing lacks, by lister (its name) or by
// instance of a lister (name/instance).
type GoneOrigins map[string]GoneRule

// GoneRule says which runs are full listings, and bounds what goes at once.
type GoneRule struct {
	// FullTaskTypes are the task types of which one run lists all origins of an instance.
	FullTaskTypes []string `yaml:"full_task_types"`
	// Listings is the number of full listings in a row that must lack an origin; 1 or more.
	Listings int `yaml:"listings"`
	// MaxShare is the part of the enabled origins that may go at once, from 0 to 1. Few origins may always go, unless
	// they are more than half. A listing that lacks more is held back.
	MaxShare float64 `yaml:"max_share"`
	Few      int     `yaml:"few"`
	// ClockMargin is the largest difference between the clocks of the database, the daemons and the workers.
	ClockMargin time.Duration `yaml:"clock_margin"`
	// Arguments are further keyword arguments that leave a listing full.
	Arguments []string `yaml:"arguments,omitempty"`
}

// MaxListings bounds GoneRule.Listings.
const MaxListings = 10

// DefaultGoneRule returns the rule of a lister without settings. FullTaskTypes is nil if the lister isn't one of
// those whose full listing is certain.
func DefaultGoneRule(lister string) GoneRule {
	r := GoneRule{Listings: 1, MaxShare: 0.05, Few: 5, ClockMargin: 10 * time.Minute}
	if taskType, ok := fullListings[lister]; ok {
		r.FullTaskTypes = []string{taskType}
	}
	return r
}

// fullListings are the task types of swh.lister 7.4.0 whose runs list a whole instance and keep no state, by the name
// of the lister.
var fullListings = func() map[string]string {
	types := map[string]string{"GNU": "list-gnu-full"}
	for name := range strings.FieldsSeq("aur bower cgit cpan cran dlang gerrit gitiles gitweb hgweb opam pagure pubdev rubygems stagit") {
		types[name] = "list-" + name
	}
	for name := range strings.FieldsSeq("bitbucket gitlab heptapod phabricator phorge tuleap") {
		types[name] = "list-" + name + "-full"
	}
	return types
}()

// FullListers returns the names of the listers that need no full_task_types, sorted.
func FullListers() []string { return slices.Sorted(maps.Keys(fullListings)) }

// NeverFull returns why a run of a task type is no full listing in spite of the type's name; "" if it may be one.
func NeverFull(taskType string) string {
	switch taskType {
	case "list-github-full":
		return "its run only starts tasks for ranges, and ends before they do"
	case "list-gitea-full", "list-forgejo-full", "list-gogs-full":
		return "its lister resumes at the last page of the listing before"
	}
	if strings.HasSuffix(taskType, "-incremental") {
		return "it is incremental"
	}
	return ""
}

// ListerOfKey returns the name of the lister in a key of GoneOrigins.
func ListerOfKey(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// Rule returns the rule of a lister's instance, and whether there is one.
func (g GoneOrigins) Rule(l Lister) (GoneRule, bool) {
	if r, ok := g[l.Name+"/"+l.InstanceName]; ok {
		return r, true
	}
	r, ok := g[l.Name]
	return r, ok
}

// ListsFor reports whether runs of a task type list instances of a lister, all of their origins or not.
func (r GoneRule) ListsFor(lister, taskType string) bool {
	prefix := "list-" + strings.ToLower(lister)
	return slices.Contains(r.FullTaskTypes, taskType) || taskType == prefix || strings.HasPrefix(taskType, prefix+"-")
}

// TaskTypes returns those of the types that list instances of the rules' listers, sorted.
func (g GoneOrigins) TaskTypes(all []TaskType) []string {
	var types []string
	for key, r := range g {
		for _, t := range all {
			if r.ListsFor(ListerOfKey(key), t.Type) {
				types = append(types, t.Type)
			}
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Allowed returns how many of so many enabled origins may go at once.
func (r GoneRule) Allowed(enabled int64) int64 {
	return max(int64(r.MaxShare*float64(enabled)), min(int64(r.Few), enabled/2))
}

// ListingRun is a run of a task that lists origins.
type ListingRun struct {
	ID        int64 // task_run.id
	TaskType  string
	Arguments json.RawMessage // of the task: an object with args and kwargs
	Status    RunStatus
	// Scheduled and Ended are by the clocks of the daemons that sent the run and read its events.
	Scheduled, Started, Ended *time.Time
}

// kwargs returns the keyword arguments that are not null, and whether there are positional ones.
func (r ListingRun) kwargs() (kwargs map[string]any, positional bool) {
	var arguments struct {
		Args   []any
		Kwargs map[string]any
	}
	if err := json.Unmarshal(r.Arguments, &arguments); err != nil {
		return nil, true
	}
	maps.DeleteFunc(arguments.Kwargs, func(_ string, value any) bool { return value == nil })
	return arguments.Kwargs, len(arguments.Args) > 0
}

// Lists reports whether the run lists an instance of a lister. only says that the lister has no other instance: then
// a run without arguments lists that one.
func (r ListingRun) Lists(instance string, only bool) bool {
	kwargs, _ := r.kwargs()
	if name, ok := kwargs["instance"].(string); ok {
		return name == instance
	}
	if url, ok := kwargs["url"].(string); ok {
		return netloc(url) == instance
	}
	return only
}

// URL returns the address that the run lists, without scheme and final slashes; "" if its arguments have none.
func (r ListingRun) URL() string {
	kwargs, _ := r.kwargs()
	url, _ := kwargs["url"].(string)
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	}
	return strings.TrimRight(url, "/")
}

// netloc returns the part of a URL by which a lister names its instance if it has no other name.
func netloc(url string) string {
	_, rest, ok := strings.Cut(url, "//")
	if !ok {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// harmless are arguments of all listers that leave a listing full, whatever they are. limits leave it full if they are
// 0 or false.
var (
	harmless = strings.Fields("url instance credentials api_token base_git_url page_size per_page max_workers record_batch_size enable_api first_visits_queue_prefix with_github_session")
	limits   = strings.Fields("max_pages max_origins_per_page incremental")
)

// partial returns why the run's arguments may leave origins out; "" if they don't.
func (r GoneRule) partial(run ListingRun) string {
	kwargs, positional := run.kwargs()
	if positional {
		return "its task has positional arguments, of which none is known to list all origins"
	}
	for _, name := range slices.Sorted(maps.Keys(kwargs)) {
		value, limit := kwargs[name], slices.Contains(limits, name)
		switch {
		case slices.Contains(harmless, name), slices.Contains(r.Arguments, name),
			limit && (value == false || value == 0.0), name == "enable_origins" && value == true:
		case limit, name == "enable_origins":
			return fmt.Sprintf("its argument %s makes it a partial listing", name)
		default:
			return fmt.Sprintf("its argument %.40q may make it a partial listing; if not, name it in gone_origins (arguments)", name)
		}
	}
	return ""
}

// Certain decides whether a run listed all origins of an instance. Then an origin that was last seen before cutoff,
// by the database's clock, was not in it. Otherwise doubt is the reason. ends are the moments, by the workers'
// clocks, at which the last listings of the instance ended.
func (r GoneRule) Certain(run ListingRun, ends []time.Time, now time.Time) (cutoff time.Time, doubt string) {
	if run.Status != RunEventful && run.Status != RunUneventful {
		return cutoff, fmt.Sprintf("it ended as %s", run.Status)
	}
	if doubt := r.partial(run); doubt != "" {
		return cutoff, doubt
	}
	if run.Scheduled == nil || run.Started == nil || run.Ended == nil {
		return cutoff, "its row lacks a date of sending, start or end"
	}
	first := *run.Scheduled
	if run.Started.Before(first) {
		first = *run.Started
	}
	first, last := first.Add(-r.ClockMargin), run.Ended.Add(r.ClockMargin)
	if last.Before(*run.Scheduled) || last.Before(*run.Started) || run.Ended.After(now.Add(r.ClockMargin)) {
		return cutoff, "its dates contradict each other by more than clock_margin: check the clocks of the hosts"
	}
	if !slices.ContainsFunc(ends, func(end time.Time) bool { return !end.Before(first) && !end.After(last) }) {
		return cutoff, "the lister recorded no end of a listing during it: another instance was listed, or clocks differ by more than clock_margin"
	}
	return first, ""
}

// Elsewhere returns the addresses of an instance if its runs list several; then each leaves origins of the others
// out. A run without an address is not counted.
func Elsewhere(runs []ListingRun) []string {
	var urls []string
	for _, run := range runs {
		if url := run.URL(); url != "" && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	if len(urls) < 2 {
		return nil
	}
	return slices.Sorted(slices.Values(urls))
}

// Newest orders runs by their number, the newest first.
func Newest(a, b ListingRun) int { return cmp.Compare(b.ID, a.ID) }
