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

// Beginning is a statement that begins a transaction.
type Beginning string

const (
	// Plainly leaves all settings as they are.
	Plainly Beginning = "begin"
	// ByIndex is for statements that find rows by indexes wherever they can.
	ByIndex Beginning = "begin; set local enable_seqscan = off; set local jit = off"
	// ByKey is for statements that look rows up by keys. No plan is kept from when a table was
	// small, or made for a few keys: it would read a table whole that has grown since.
	ByKey = ByIndex + "; set local plan_cache_mode = force_custom_plan"
	// ByPlace is byKey for statements that walk an index to its first rows, too. Otherwise all would be
	// sorted for them where PostgreSQL expects few.
	ByPlace = ByKey + "; set local enable_sort = off"
)

// Transact runs do in a transaction (read committed), which is committed if do returns nil
// and rolled back otherwise. It never retries. After an error of the commit it may be
// unknown whether the transaction took place (the connection was lost).
func (d *DB) Transact(ctx context.Context, begin Beginning, do func(context.Context, *Tx) error) error {
	return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: string(begin)}, func(tx pgx.Tx) error { return do(ctx, d.newTx(tx)) })
}

// TransactOn is Transact for what on makes of the transaction.
func TransactOn[T any](ctx context.Context, d *DB, begin Beginning, on func(*Tx) T, do func(context.Context, *T) error) error {
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

// End commits a transaction of Begin if err is nil. Otherwise it rolls back and returns err.
func (tx *Tx) End(ctx context.Context, err error) error {
	if err == nil {
		return tx.Raw.Commit(ctx)
	}
	_ = tx.Raw.Rollback(ctx) // if it fails, the connection ends, and with it the transaction
	return err
}

// Query runs a query under the meter of its context, as generated statements do.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return metered{tx.Raw}.Query(ctx, sql, args...)
}

// Savepoint calls do at a savepoint, and rolls back to it after an error.
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

// NoRoom reports whether PostgreSQL had no room for what was to be written: its disk is full.
func NoRoom(err error) bool { return SQLState(err) == "53100" }

// Insist calls do at a savepoint. While PostgreSQL has no room for what do writes, it rolls back to the savepoint, and
// calls do again each time that again, given the error, returns true. The transaction keeps the locks that it had
// before. It returns the last error of do.
func (tx *Tx) Insist(ctx context.Context, do func() error, again func(error) bool) error {
	for {
		err := tx.Savepoint(ctx, do)
		if !NoRoom(err) || !again(err) {
			return err
		}
	}
}

// PinPlans restricts the planner to walks along indexes and look-ups by key, which is
// what candidates are for; it cannot know how few of the parked are due, or how
// many changes are pending. So a plan is good for all values, and a connection makes it once: to plan a
// grab takes a third of its time. UnpinPlans takes the restrictions back. It leaves compiling off until the
// transaction ends: the default is the server's, which is not what a session has (sessionSettings).
const (
	PinPlans = `set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off;
		set local enable_hashjoin = off; set local enable_mergejoin = off; set local plan_cache_mode = force_generic_plan;
		set local jit = off`
	UnpinPlans = `set local enable_seqscan to default; set local enable_bitmapscan to default; set local enable_sort to default;
		set local enable_hashjoin to default; set local enable_mergejoin to default; set local plan_cache_mode to default`
)
