package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// listedKey is the key of a listed origin.
type listedKey struct {
	lister         uuid.UUID
	url, visitType string
}

// RecordListedOrigins writes what a lister found: new origins are added, and
// those already there get all that the lister tells of them anew, so that one
// that was disabled can be enabled again. They were seen now, or with
// keepLastSeen at their LastSeen. FirstSeen is the database's business. Of an
// origin that comes twice, the last one counts. It returns each once, as it is
// in the database, in the order of the call. scheduler.ErrUnknownLister if a
// lister is not there.
func (a asker) RecordListedOrigins(ctx context.Context, origins []scheduler.ListedOrigin, keepLastSeen bool) ([]scheduler.ListedOrigin, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	order := make(map[listedKey]int, len(origins))
	unique := make([]scheduler.ListedOrigin, 0, len(origins))
	for _, o := range origins {
		key := listedKey{o.ListerID, o.URL, o.VisitType}
		if at, found := order[key]; found {
			unique[at] = o
			continue
		}
		order[key] = len(unique)
		unique = append(unique, o)
	}
	document, err := encodeListedOrigins(unique, keepLastSeen)
	if err != nil {
		return nil, fmt.Errorf("record listed origins: %w", err)
	}
	rows, err := a.q.RecordListedOrigins(ctx, document)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.ConstraintName == "listed_origins_lister_id_fkey" {
		return nil, fmt.Errorf("record listed origins: %w: %s", scheduler.ErrUnknownLister, pgErr.Detail)
	}
	if err != nil {
		return nil, fmt.Errorf("record %d listed origins: %w", len(unique), err)
	}
	slices.SortFunc(rows, func(a, b queries.ListedOrigin) int {
		return order[listedKey{a.ListerID, a.URL, a.VisitType}] - order[listedKey{b.ListerID, b.URL, b.VisitType}]
	})
	return listedOriginsOf(rows), nil
}

// encodeListedOrigins writes origins as the JSON list that the query reads.
func encodeListedOrigins(origins []scheduler.ListedOrigin, keepLastSeen bool) (json.RawMessage, error) {
	type row struct {
		ListerID  uuid.UUID       `json:"lister_id"`
		URL       string          `json:"url"`
		VisitType string          `json:"visit_type"`
		Arguments json.RawMessage `json:"extra_loader_arguments"`
		Enabled   bool            `json:"enabled"`
		// nil is the time of the transaction
		LastSeen      *time.Time `json:"last_seen"`
		LastUpdate    *time.Time `json:"last_update"`
		IsFork        *bool      `json:"is_fork"`
		ForkedFromURL *string    `json:"forked_from_url"`
	}
	rows := make([]row, len(origins))
	for i, o := range origins {
		rows[i] = row{
			ListerID: o.ListerID, URL: o.URL, VisitType: o.VisitType,
			Arguments: orEmptyObject(o.ExtraLoaderArguments), Enabled: o.Enabled,
			LastUpdate: inMicroseconds(o.LastUpdate), IsFork: o.IsFork, ForkedFromURL: o.ForkedFromURL,
		}
		if keepLastSeen {
			rows[i].LastSeen = inMicroseconds(&o.LastSeen)
		}
	}
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(rows)
	return document.Bytes(), err
}

// inMicroseconds cuts a time as the database's driver does; PostgreSQL would
// round one that it reads from text.
func inMicroseconds(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	cut := t.UTC().Truncate(time.Microsecond)
	return &cut
}

// ListedOriginFilter says which origins to read; an empty field does not matter.
type ListedOriginFilter struct {
	ListerID uuid.NullUUID
	URLs     []string
	Enabled  *bool // nil: those enabled and those not
	After    *ListedOriginToken
	Limit    int // how many at most; 0: the peer's 1000
}

// ListedOriginToken is where a page ended.
type ListedOriginToken struct {
	ListerID uuid.UUID
	URL      string
}

// ListedOrigins reads a page of origins, by lister and URL, and where the next
// one starts (nil after the last). A page can be somewhat longer than the limit:
// a URL comes with all its visit types (the peer loses those that the limit cuts
// off).
func (a asker) ListedOrigins(ctx context.Context, f ListedOriginFilter) ([]scheduler.ListedOrigin, *ListedOriginToken, error) {
	if f.Limit == 0 {
		f.Limit = 1000
	}
	params := queries.ListedOriginsParams{
		ListerID: f.ListerID, Urls: orNull(f.URLs), Enabled: f.Enabled, MaxOrigins: int64(f.Limit),
	}
	if f.After != nil {
		params.AfterLister = uuid.NullUUID{UUID: f.After.ListerID, Valid: true}
		params.AfterURL = f.After.URL
	}
	rows, err := a.q.ListedOrigins(ctx, params)
	if err != nil {
		return nil, nil, fmt.Errorf("read listed origins: %w", err)
	}
	origins := listedOriginsOf(rows)
	if len(origins) < f.Limit {
		return origins, nil, nil
	}
	last := origins[len(origins)-1]
	return origins, &ListedOriginToken{ListerID: last.ListerID, URL: last.URL}, nil
}

func listedOriginsOf(rows []queries.ListedOrigin) []scheduler.ListedOrigin {
	origins := make([]scheduler.ListedOrigin, len(rows))
	for i, row := range rows {
		origins[i] = scheduler.ListedOrigin(row)
	}
	return origins
}

// EnabledVisitTypes are the visit types of which origins are enabled, sorted. It
// reads all origins.
func (a asker) EnabledVisitTypes(ctx context.Context) ([]string, error) {
	visitTypes, err := a.q.EnabledVisitTypes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the visit types of listed origins: %w", err)
	}
	return visitTypes, nil
}

// Standing is what the metrics count of an origin of a lister.
type Standing struct {
	URL, VisitType string
	ListerID       uuid.UUID
	Enabled        bool
	LastUpdate     *time.Time
	LastSuccessful *time.Time
	Loaded         bool // has a snapshot
}

// Standings tells how the origins of some URLs stand, of all listers and visit
// types.
func (a asker) Standings(ctx context.Context, urls []string) ([]Standing, error) {
	if len(urls) == 0 {
		return nil, nil
	}
	rows, err := a.q.Standings(ctx, urls)
	if err != nil {
		return nil, fmt.Errorf("read how %d origins stand: %w", len(urls), err)
	}
	standings := make([]Standing, len(rows))
	for i, row := range rows {
		standings[i] = Standing(row)
	}
	return standings, nil
}
