package swh

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Visit is a visit in the storage.
type Visit struct {
	Origin, Type string
	Date         time.Time // when it began
	Status       string    // the last one
	Snapshot     string    // in hexadecimal, or ""
	Tip          string    // its main branch's commit, or its last release: "2.0"
}

// Visits returns all visits of a storage by the origin's URL, in the order of their starts. storage is a connection
// to its database.
func Visits(ctx context.Context, storage *pgx.Conn) (map[string][]Visit, error) {
	found := map[string][]Visit{}
	rows, err := storage.Query(ctx, `
		select o.url, v.type, v.date, s.status::text, coalesce(encode(s.snapshot, 'hex'), ''),
			coalesce((select coalesce(max(encode(b.target, 'hex')) filter (where b.name = 'refs/heads/main'),
					max(split_part(convert_from(b.name, 'UTF8'), '/', 2)) filter (where b.name like 'releases/%'))
				from snapshot n join snapshot_branches m on m.snapshot_id = n.object_id
					join snapshot_branch b on b.object_id = m.branch_id
				where n.id = s.snapshot), '')
		from origin_visit v join origin o on o.id = v.origin
			join lateral (select * from origin_visit_status s where (s.origin, s.visit) = (v.origin, v.visit)
				order by s.date desc limit 1) s on true
		order by v.date`)
	if err != nil {
		return nil, err
	}
	visits, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Visit])
	for _, v := range visits {
		found[v.Origin] = append(found[v.Origin], v)
	}
	return found, err
}

// Known is the scheduler's state of an origin's visits.
type Known struct {
	Origin             string
	Scheduled, Visited *time.Time // the last
	Status             string     // of the last visit; "" before a visit's result
	Snapshot           string     // the last one, in hexadecimal, or ""
}

// Query is a connection to a database, or a pool of them.
type Query interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// KnownVisits returns the scheduler's state by the origin's URL.
func KnownVisits(ctx context.Context, scheduler Query) (map[string]Known, error) {
	found := map[string]Known{}
	rows, _ := scheduler.Query(ctx, `select url, last_scheduled, last_visit, coalesce(last_visit_status::text, ''),
		coalesce(encode(last_snapshot, 'hex'), '') from origin_visit_stats`) // CollectRows returns the error
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Known])
	for _, k := range all {
		found[k.Origin] = k
	}
	return found, err
}

// Differences returns the origins whose visits differ between the scheduler and the storage.
func Differences(known map[string]Known, stored map[string][]Visit) (differences []string) {
	for url, visits := range stored {
		v, k := visits[len(visits)-1], known[url]
		status := map[string]string{"full": "successful"}[v.Status]
		if k.Status != cmp.Or(status, v.Status) || v.Status == "full" && k.Snapshot != v.Snapshot {
			differences = append(differences, fmt.Sprintf("%s: stored is %s %.8s, known %s %.8s", url, v.Status, v.Snapshot, k.Status, k.Snapshot))
		}
	}
	for url, k := range known {
		if k.Status != "" && stored[url] == nil {
			differences = append(differences, fmt.Sprintf("%s: known %s, nothing stored", url, k.Status))
		}
	}
	return differences
}
