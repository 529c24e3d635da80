// Package forge reads a forge's listings, its listed origins, and the outcomes of their visits.
package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/origins"
)

type Listing struct {
	TaskType string
	Kind     string // full or incremental; "" if the lister has one kind
}

func Listings(ctx context.Context, from model.TaskTypes, lister string) ([]Listing, error) {
	var listings []Listing
	for _, listing := range []string{"full", "incremental", ""} {
		name := "list-" + lister
		if listing != "" {
			name += "-" + listing
		}
		_, err := from.TaskType(ctx, name)
		switch {
		case errors.Is(err, model.ErrUnknownTaskType):
		case err != nil:
			return nil, err
		default:
			listings = append(listings, Listing{name, listing})
		}
	}
	return listings, nil
}

// OnlyFull removes the incremental listing if there is a full one.
func OnlyFull(listings []Listing) []Listing {
	if listings[0].Kind != "full" {
		return listings
	}
	return slices.DeleteFunc(listings, func(l Listing) bool { return l.Kind == "incremental" })
}

// Limited adds arguments that keep a listing small and its origins disabled to given.
func Limited(given json.RawMessage) (json.RawMessage, error) {
	var kwargs dispatch.Kwargs
	kwargs.Set("max_pages", json.RawMessage("2"))
	kwargs.Set("max_origins_per_page", json.RawMessage("5"))
	if err := kwargs.Merge(given); err != nil {
		return nil, err
	}
	kwargs.Set("enable_origins", json.RawMessage("false"))
	return kwargs.JSON(), nil
}

// Listers looks up listers and their origins.
type Listers interface {
	Lister(ctx context.Context, name, instance string) (model.Lister, error)
	ListedOrigins(ctx context.Context, f origins.ListedOriginFilter) ([]model.ListedOrigin, *origins.ListedOriginToken, error)
}

// Stats looks up the outcomes of visits.
type Stats interface {
	VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error)
}

// ListedOrigins returns all origins of a lister, or an error if there are none. It calls progress with the number of
// origins of each page.
func ListedOrigins(ctx context.Context, from Listers, lister, instance string, progress func(n int)) ([]model.ListedOrigin, error) {
	l, err := from.Lister(ctx, lister, instance)
	if errors.Is(err, model.ErrUnknownLister) {
		return nil, pytext.Sentencef("Forge %s (%s) isn't registered in the scheduler database.", instance, lister)
	}
	if err != nil {
		return nil, err
	}
	var found []model.ListedOrigin
	const page = 10000
	filter := origins.ListedOriginFilter{ListerID: uuid.NullUUID{UUID: l.ID, Valid: true}, Limit: page}
	for first := true; first || filter.After != nil; first = false {
		some, next, err := from.ListedOrigins(ctx, filter)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
		progress(len(some))
		filter.After = next
	}
	if len(found) == 0 {
		return nil, pytext.Sentencef("Forge %s (%s) has 0 listed origin in the scheduler database.", instance, lister)
	}
	return found, nil
}

// Ingested counts the origins of a forge by the outcome of their last visit.
type Ingested struct {
	Failed, Unvisited, NotFound, Successful int
	Visited                                 []model.VisitStats // all origins with a visit
}

func (c Ingested) Total() int { return c.Failed + c.Unvisited + c.NotFound + c.Successful }

// SuccessRate returns the percentage of successful visits.
func (c Ingested) SuccessRate() float64 { return float64(c.Successful) / float64(c.Total()) * 100 }

// CountIngested counts the origins of an instance by the outcomes of their visits. It returns an error if none was
// scheduled. It calls progress with the number of origins of each chunk.
func CountIngested(ctx context.Context, from Stats, origins []model.ListedOrigin, instance string, progress func(n int)) (c Ingested, err error) {
	for some := range slices.Chunk(origins, 10_000) {
		keys := make([]model.OriginKey, len(some))
		for i, o := range some {
			keys[i] = model.OriginKey{URL: o.URL, VisitType: o.VisitType}
		}
		stats, err := from.VisitStats(ctx, keys)
		if err != nil {
			return c, err
		}
		for _, s := range stats {
			c.count(s)
		}
		progress(len(some))
	}
	if c.Total() == 0 {
		return c, pytext.Sentencef("Forge %s has 0 scheduled ingest in the scheduler database.", instance)
	}
	return c, nil
}

func (c *Ingested) count(s model.VisitStats) {
	switch s.LastVisitStatus {
	case model.VisitSuccessful:
		c.Successful++
	case model.VisitFailed:
		c.Failed++
	case model.VisitNotFound:
		c.NotFound++
	default:
		c.Unvisited++
		return
	}
	c.Visited = append(c.Visited, s)
}

// Summary formats the counts as the Python scheduler does.
func (c Ingested) Summary(instance, state string) string {
	return fmt.Sprintf("\nForge %s%s\nfailed      : %d\nNone        : %d\nnot_found   : %d\nsuccessful  : %d\ntotal       : %d\nsuccess rate: %.2f%%\n",
		instance, state, c.Failed, c.Unvisited, c.NotFound, c.Successful, c.Total(), c.SuccessRate())
}

// Object returns the counts for JSON; with listing, also the visited origins.
func (c Ingested) Object(listing bool) map[string]any {
	object := map[string]any{
		"failed": c.Failed, "not_visited": c.Unvisited, "not_found": c.NotFound, "successful": c.Successful,
		"total": c.Total(), "success_rate": c.SuccessRate(),
	}
	if listing {
		visited := make([]map[string]any, len(c.Visited))
		for i, s := range c.Visited {
			visited[i] = map[string]any{"url": s.URL, "visit_type": s.VisitType, "last_visit_status": s.LastVisitStatus, "last_visit": s.LastVisit}
		}
		object["origins"] = visited
	}
	return object
}
