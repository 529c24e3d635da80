package stmt

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Session is a connection, a pool or a transaction.
type Session interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Column returns the only column of a query.
func Column[T any](ctx context.Context, db Session, query string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, query, args...) // the returned rows carry the error
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Rows returns the rows of a query. Its columns are the fields of T in their order.
func Rows[T any](ctx context.Context, db Session, query string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, query, args...)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
