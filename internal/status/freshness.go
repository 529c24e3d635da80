package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// Freshness is the freshness of the archive, with a forecast of the end of the backlog of visits.
type Freshness struct {
	At      time.Time            `json:"at"`
	Workers int                  `json:"workers"` // the forecast's number of workers; 0: the present one
	By      *time.Time           `json:"by"`      // the forecast's date; nil: none
	Types   []VisitTypeFreshness `json:"visit_types"`
	Listers []ListerFreshness    `json:"listers"`       // at most MaxListers: stopped ones, then late ones, then those with the most origins without a visit
	Late    []string             `json:"late_listers"`  // stopped or late listers, at most MaxListers
	Found   int                  `json:"listers_found"` // the number of listers, of which Listers has some
}

// VisitTypeFreshness is the freshness of a visit type. Counts are those of update-metrics.
type VisitTypeFreshness struct {
	VisitType string     `json:"visit_type"`
	Counted   *time.Time `json:"counted"` // nil: never
	Known     int64      `json:"known"`
	Enabled   int64      `json:"enabled"`
	Never     int64      `json:"never_visited"`
	Changed   int64      `json:"changed"`     // since their last visit, by their listers' dates
	OutOfDate *float64   `json:"out_of_date"` // the fraction of enabled origins that was never visited or has changed; nil: unknown
	// Staleness is the mean over the visited origins, in seconds: estimated for all, and measured for those whose
	// listers report updates. Only with the policy freshness.
	Staleness *float64 `json:"staleness"`
	Measured  *float64 `json:"staleness_measured"`
	freshness.Forecast
}

// ListerFreshness is the freshness of a lister's origins of a visit type.
type ListerFreshness struct {
	Lister    string                 `json:"lister"`
	Instance  string                 `json:"instance"`
	VisitType string                 `json:"visit_type"` // "": nothing was counted
	State     freshness.ListingState `json:"state"`
	Finished  *time.Time             `json:"last_listing"`
	Previous  *time.Time             `json:"previous_listing"`
	Counted   *time.Time             `json:"counted"`
	Enabled   int64                  `json:"enabled"`
	Never     int64                  `json:"never_visited"`
	Changed   int64                  `json:"changed"`
	OutOfDate *float64               `json:"out_of_date"`
}

// MaxListers is the most listers of a list.
const MaxListers = 100

// FreshnessFilter selects visit types and listers.
type FreshnessFilter struct {
	VisitType string // "": all
	Word      string // a part of the name or the instance of listers
	freshness.Plan
}

// ReadFreshness reads stored counts and their age. It scans no table of origins.
func ReadFreshness(ctx context.Context, store *db.Store, c *config.Config, filter FreshnessFilter) (f Freshness, err error) {
	now := store.Now()
	f = Freshness{At: now, Workers: filter.Workers, Types: []VisitTypeFreshness{}, Listers: []ListerFreshness{}, Late: []string{}}
	if !filter.By.IsZero() {
		f.By = &filter.By
	}
	counts, err := store.CountsOfListers(ctx)
	if err != nil {
		return f, err
	}
	flows, err := store.Flows(ctx, counts, now)
	if err != nil {
		return f, err
	}
	stale, err := store.FreshnessCounts(ctx)
	if err != nil {
		return f, err
	}
	consumers, err := consumersByType(ctx, store, c, now)
	if err != nil {
		return f, err
	}
	for _, flow := range flows {
		if filter.VisitType != "" && flow.VisitType != filter.VisitType {
			continue
		}
		if n, known := consumers[model.LoaderTaskType(flow.VisitType)]; known {
			flow.Consumers = &n
		}
		f.Types = append(f.Types, ofFlow(flow, filter.Plan, stale[flow.VisitType], now))
	}
	f.addListers(counts, filter, now)
	return f, nil
}

// consumersByType returns the number of consumers of each task type's queues, from samples.
func consumersByType(ctx context.Context, store *db.Store, c *config.Config, now time.Time) (map[string]int, error) {
	byQueue, err := store.Consumers(ctx, now)
	if err != nil || byQueue == nil {
		return nil, err
	}
	known, err := dispatch.KnownQueues(ctx, store, c.Lanes)
	byType := map[string]int{}
	for _, q := range known {
		byType[q.TaskType] += byQueue[q.Name]
	}
	return byType, err
}

func ofFlow(flow freshness.Flow, plan freshness.Plan, stale origins.FreshnessCounts, now time.Time) VisitTypeFreshness {
	t := VisitTypeFreshness{
		VisitType: flow.VisitType, Counted: known(flow.Counted), Known: flow.Known, Enabled: flow.Enabled, Never: flow.Never, Changed: flow.Changed,
		OutOfDate: part(flow.Never+flow.Changed, flow.Enabled), Forecast: flow.Forecast(plan, now),
	}
	if stale.Origins > 0 {
		t.Staleness = new(stale.Staleness / float64(stale.Origins))
	}
	if stale.Measured > 0 {
		t.Measured = new(stale.MeasuredStaleness / float64(stale.Measured))
	}
	return t
}

// known returns nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() || t.Unix() == 0 {
		return nil
	}
	return &t
}

// part returns some / all; nil if all is 0.
func part(some, all int64) *float64 {
	if all <= 0 {
		return nil
	}
	return new(float64(some) / float64(all))
}

func (f *Freshness) addListers(counts []db.ListerCounts, filter FreshnessFilter, now time.Time) {
	var all []ListerFreshness
	for _, c := range counts {
		if filter.VisitType != "" && c.VisitType != filter.VisitType || !strings.Contains(c.Name, filter.Word) && !strings.Contains(c.InstanceName, filter.Word) {
			continue
		}
		all = append(all, ListerFreshness{
			Lister: c.Name, Instance: c.InstanceName, VisitType: c.VisitType, State: db.Listing(c, now),
			Finished: known(c.Finished), Previous: known(c.Previous), Counted: known(c.Counted),
			Enabled: c.Enabled, Never: c.Never, Changed: c.Changed, OutOfDate: part(c.Never+c.Changed, c.Enabled),
		})
	}
	rank := map[freshness.ListingState]int{freshness.ListingStopped: 0, freshness.ListingBehind: 1, freshness.ListingUnknown: 2, freshness.ListingOK: 2}
	slices.SortStableFunc(all, func(a, b ListerFreshness) int {
		return cmp.Or(rank[a.State]-rank[b.State], cmp.Compare(b.Never+b.Changed, a.Never+a.Changed))
	})
	for _, l := range all {
		if name := l.Lister + " " + l.Instance; rank[l.State] < 2 && !slices.Contains(f.Late, name) && len(f.Late) < MaxListers {
			f.Late = append(f.Late, name)
		}
	}
	f.Found = len(all)
	f.Listers = append(f.Listers, all[:min(len(all), MaxListers)]...)
}

// FreshnessTables formats f for a terminal.
func FreshnessTables(t pytext.Terminal, f Freshness) string {
	lines := []string{"VISIT TYPE\tENABLED>\tNEVER>\tCHANGED>\tOUT OF DATE>\tSTALENESS>\tNEW/DAY>\tFIRST/DAY>\tVISITS/DAY>\tRUNTIME>\tPARALLEL>\tCONSUMERS>\tBACKLOG"}
	if f.By != nil {
		lines[0] += "\tWORKERS NEEDED"
	}
	perDay := func(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }
	for _, v := range f.Types {
		stale := orUnknown(v.Staleness, explain.RoughSeconds)
		if v.Measured != nil {
			stale += " (" + explain.RoughSeconds(*v.Measured) + " measured)"
		}
		line := fmt.Sprintf("%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", pytext.Visible(v.VisitType), v.Enabled, v.Never, v.Changed,
			orUnknown(v.OutOfDate, func(p float64) string { return fmt.Sprintf("%.1f %%", 100*p) }), stale,
			orUnknown(v.New, perDay), orUnknown(v.First, perDay), orUnknown(v.VisitsADay, perDay), orUnknown(v.Took, explain.RoughSeconds),
			orUnknown(v.Busy, perDay), orUnknown(v.Consumers, strconv.Itoa), v.Text)
		if f.By != nil {
			line += "\t" + v.NeededText
		}
		lines = append(lines, line)
	}
	text := t.Columns(lines)
	if len(f.Types) == 0 {
		text = "No origins are counted: see swh-scheduler origin update-metrics.\n"
	}
	for _, t := range f.Types {
		if len(t.Assumptions) > 0 {
			text += fmt.Sprintf("\n%s: %s.", pytext.Visible(t.VisitType), strings.Join(t.Assumptions, "; "))
		}
	}
	if len(f.Types) > 0 {
		text += "\n"
	}
	for _, state := range []freshness.ListingState{freshness.ListingStopped, freshness.ListingBehind} {
		var names []string
		for _, l := range f.Listers {
			name := pytext.Visible(l.Lister + " " + l.Instance)
			if l.State == state && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			text += fmt.Sprintf("\nListers that %s: %s\n", map[freshness.ListingState]string{freshness.ListingStopped: "have stopped", freshness.ListingBehind: "fall behind"}[state], strings.Join(names, ", "))
		}
	}
	return text
}
