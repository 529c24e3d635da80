package origins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// RecordListedOrigins adds or replaces origins that a lister found; it can enable a disabled origin again.
// LastSeen becomes the time of the transaction, unless keepLastSeen is set. If an origin occurs several
// times, the last one counts. It returns each origin once, as stored, in the order of the call. It returns
// model.ErrUnknownLister for an unknown lister.
func (a Queries) RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	type key struct {
		lister         uuid.UUID
		url, visitType string
	}
	order := make(map[key]int, len(origins))
	unique := make([]model.ListedOrigin, 0, len(origins))
	for _, o := range origins {
		key := key{o.ListerID, o.URL, o.VisitType}
		if at, found := order[key]; found {
			unique[at] = o
			continue
		}
		order[key] = len(unique)
		unique = append(unique, o)
	}
	for i := range unique {
		o := &unique[i]
		o.ExtraLoaderArguments, o.LastUpdate = stmt.OrEmptyObject(o.ExtraLoaderArguments), stmt.InMicroseconds(o.LastUpdate)
		if o.LastSeen = *stmt.InMicroseconds(&o.LastSeen); !keepLastSeen {
			o.LastSeen = time.Time{} // the time of the transaction
		}
	}
	document, err := stmt.EncodeRows(unique)
	if err != nil {
		return nil, fmt.Errorf("record listed origins: %w", err)
	}
	rows, err := a.q.RecordListedOrigins(ctx, document)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.ConstraintName == "listed_origins_lister_id_fkey" {
		return nil, fmt.Errorf("record listed origins: %w: %s", model.ErrUnknownLister, pgErr.Detail)
	}
	slices.SortFunc(rows, func(a, b queries.ListedOrigin) int {
		return order[key{a.ListerID, a.URL, a.VisitType}] - order[key{b.ListerID, b.URL, b.VisitType}]
	})
	return stmt.List(rows, stmt.Failed(err, "record %d listed origins", len(unique)), listedOriginOf)
}

func listedOriginOf(row queries.ListedOrigin) model.ListedOrigin { return model.ListedOrigin(row) }

// ListedOriginFilter selects origins; an empty field is no condition.
type ListedOriginFilter struct {
	ListerID uuid.NullUUID
	URLs     []string
	Enabled  *bool
	After    *ListedOriginToken
	Limit    int // 0: 1000, the Python scheduler's default
}

// ListedOriginToken is the last origin of a page.
type ListedOriginToken struct {
	ListerID uuid.UUID
	URL      string
}

// ListedOrigins returns a page of origins by lister and URL, and the start of the next page (nil after the
// last). A page can exceed the limit, as it has all visit types of its last URL; the Python scheduler loses
// those beyond the limit.
func (a Queries) ListedOrigins(ctx context.Context, f ListedOriginFilter) ([]model.ListedOrigin, *ListedOriginToken, error) {
	if f.Limit == 0 {
		f.Limit = 1000
	}
	params := queries.ListedOriginsParams{
		ListerID: f.ListerID, Urls: stmt.OrNull(f.URLs), Enabled: f.Enabled, MaxOrigins: int64(f.Limit),
	}
	if f.After != nil {
		params.AfterLister = uuid.NullUUID{UUID: f.After.ListerID, Valid: true}
		params.AfterURL = f.After.URL
	}
	rows, err := a.q.ListedOrigins(ctx, params)
	origins, err := stmt.List(rows, stmt.Failed(err, "read listed origins"), listedOriginOf)
	if err != nil || len(origins) < f.Limit {
		return origins, nil, err
	}
	last := origins[len(origins)-1]
	return origins, &ListedOriginToken{ListerID: last.ListerID, URL: last.URL}, nil
}

// EnabledVisitTypes lists the visit types with enabled origins, sorted. It reads all origins.
func (a Queries) EnabledVisitTypes(ctx context.Context) ([]string, error) {
	visitTypes, err := a.q.EnabledVisitTypes(ctx)
	return visitTypes, stmt.Failed(err, "read the visit types of listed origins")
}

// OriginForMetrics is a lister's origin with the columns that the metrics count.
type OriginForMetrics = queries.OriginsForMetricsRow

// OriginsForMetrics returns the standings of the URLs for all listers and visit types.
func (a Queries) OriginsForMetrics(ctx context.Context, urls []string) ([]OriginForMetrics, error) {
	if len(urls) == 0 {
		return nil, nil
	}
	rows, err := a.q.OriginsForMetrics(ctx, urls)
	return rows, stmt.Failed(err, "read the standings of %d origins", len(urls))
}
