package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
)

// Tx is a transaction. It is not safe for concurrent use.
type Tx struct {
	Q   *queries.Queries // the generated statements
	Raw pgx.Tx

	clock *clock
}

// BeginStatement is a statement that begins a transaction.
type BeginStatement string

const (
	// Plainly changes no settings.
	Plainly BeginStatement = "begin"
	// ByIndex is for statements that find rows by indexes where possible.
	ByIndex BeginStatement = "begin; set local enable_seqscan = off; set local jit = off"
	// ByKey uses custom plans, for statements that look rows up by keys. A cached generic plan may scan a
	// table that has grown since the plan was made.
	ByKey = ByIndex + "; set local plan_cache_mode = force_custom_plan"
	// ByPlace is ByKey for transactions with statements that walk an index to its first rows. By its
	// estimates, the planner would sort all rows.
	ByPlace = ByKey + "; set local enable_sort = off"
)

// Transact runs do in a transaction (read committed). It commits if do returns nil and rolls back
// otherwise. It never retries. If the connection is lost during the commit, the caller can't know whether
// the transaction took effect.
func (d *DB) Transact(ctx context.Context, begin BeginStatement, do func(context.Context, *Tx) error) error {
	return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: string(begin)}, func(tx pgx.Tx) error { return do(ctx, d.newTx(tx)) })
}

// TransactOn is Transact with the value that on returns for the transaction.
func TransactOn[T any](ctx context.Context, d *DB, begin BeginStatement, on func(*Tx) T, do func(context.Context, *T) error) error {
	return d.Transact(ctx, begin, func(ctx context.Context, tx *Tx) error {
		of := on(tx)
		return do(ctx, &of)
	})
}

func (d *DB) newTx(tx pgx.Tx) *Tx { return &Tx{queries.New(metered{tx}), tx, d.clock} }

// BeginTx begins a transaction as Transact does, Plainly. It holds a connection until End.
func (d *DB) BeginTx(ctx context.Context) (*Tx, error) {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return d.newTx(tx), nil
}

// End commits a transaction of BeginTx if err is nil. Otherwise it rolls back and returns err.
func (tx *Tx) End(ctx context.Context, err error) error {
	if err == nil {
		return tx.Raw.Commit(ctx)
	}
	_ = tx.Raw.Rollback(ctx) // if it fails, the connection ends, which ends the transaction
	return err
}

// Query runs a query with its context's meter, as generated statements do.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return metered{tx.Raw}.Query(ctx, sql, args...)
}

// Savepoint calls do in a savepoint, and rolls back to it after an error.
func (tx *Tx) Savepoint(ctx context.Context, do func() error) error {
	inner, err := tx.Raw.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, inner.Rollback(ctx))
	}
	return inner.Commit(ctx)
}

// IsDiskFull reports whether PostgreSQL's disk is full.
func IsDiskFull(err error) bool { return SQLState(err) == "53100" }

// RetryWhileDiskFull calls do in a savepoint. While PostgreSQL's disk is too full for do, it rolls back to the
// savepoint, and repeats do as long as again returns true for the error. The transaction keeps its earlier
// locks. RetryWhileDiskFull returns the last error of do.
func (tx *Tx) RetryWhileDiskFull(ctx context.Context, do func() error, again func(error) bool) error {
	for {
		err := tx.Savepoint(ctx, do)
		if !IsDiskFull(err) || !again(err) {
			return err
		}
	}
}

// PinPlans restricts the planner to index scans, which candidates are built for. The planner can't estimate
// how few parked candidates are due, or how many changes are pending. The plan fits all values, so a
// connection makes it once: planning takes a third of a grab. UnpinPlans ends the restrictions. JIT stays
// off until the transaction ends: its default is the server's, not the session's (sessionSettings).
const (
	PinPlans = `set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off; set local enable_incremental_sort = off;
		set local enable_hashjoin = off; set local enable_mergejoin = off; set local plan_cache_mode = force_generic_plan;
		set local jit = off`
	UnpinPlans = `set local enable_seqscan to default; set local enable_bitmapscan to default; set local enable_sort to default; set local enable_incremental_sort to default;
		set local enable_hashjoin to default; set local enable_mergejoin to default; set local plan_cache_mode to default`
)
