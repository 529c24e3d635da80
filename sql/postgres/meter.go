package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
)

type meterKey struct{}

// WithMeter returns a context under which a Store calls read with the size of each row, in bytes, before it
// stores the row. An error of read ends the statement with that error. This bounds the caller's memory.
func WithMeter(ctx context.Context, read func(size int) error) context.Context {
	return context.WithValue(ctx, meterKey{}, read)
}

// metered is a pool or a transaction whose queries use their context's meter.
type metered struct{ queries.DBTX }

func (m metered) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := m.DBTX.Query(ctx, sql, args...)
	if read, ok := ctx.Value(meterKey{}).(func(int) error); ok && err == nil {
		rows = &meteredRows{Rows: rows, read: read}
	}
	return rows, err
}

type meteredRows struct {
	pgx.Rows
	read func(size int) error
	err  error
}

func (r *meteredRows) Next() bool {
	if !r.Rows.Next() {
		return false
	}
	size := 0
	for _, value := range r.RawValues() {
		size += len(value)
	}
	if r.err = r.read(size); r.err != nil {
		r.Close()
	}
	return r.err == nil
}

func (r *meteredRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}
