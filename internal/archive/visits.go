package archive

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Visit is one that the storage has.
type Visit struct {
	Origin, Type string
	Date         time.Time // when it began
	Status       string    // the last one
	Snapshot     string    // in hexadecimal, or ""
	Tip          string    // its main branch's commit, or its last release: "2.0"
}

// Visits returns all visits of a storage, by the connection to its database, in the order
// in which they began.
func Visits(ctx context.Context, storage *pgx.Conn) ([]Visit, error) {
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
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Visit])
}
