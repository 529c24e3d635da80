package postgres

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Concurrent small reads share a round trip to the database, like a group commit: a round trip costs both
// ends more than such a read. While no round trip is underway, a read goes alone at once, like any other.
// Otherwise it waits for the round trip to end, and goes with all that wait then. So each reads what was
// committed before it began. Beside a slow round trip, a read that has waited for tripTime begins another
// one with all that wait, up to maxTrips.
//
// If a read fails, it and those after it run again alone. So does a read with more than keptBytes of rows,
// or without an answer after the patience. While a lock blocks both round trips, each small read first
// waits that long.

const (
	maxTrips        = 2
	maxReads        = 64       // in a round trip
	keptBytes       = 64 << 10 // of a read's rows
	defaultTripTime = 20 * time.Millisecond
	defaultPatience = 500 * time.Millisecond
)

type smallKey struct{}

// WithSmallReads returns a context under which a Store's reads may share round trips. It is for reads of
// few rows by key, without locks. Their arguments must not change afterwards, even if ctx ends first.
func WithSmallReads(ctx context.Context) context.Context {
	return context.WithValue(ctx, smallKey{}, true)
}

// trips is a pool whose small reads share round trips.
type trips struct {
	*pgxpool.Pool
	open     context.Context // ends with close
	close    context.CancelFunc
	tripTime time.Duration
	patience time.Duration

	mu       sync.Mutex
	underway int
	waiting  []*smallRead // the longest-waiting first
}

type smallRead struct {
	sql  string
	args []any
	late bool          // it has waited for tripTime
	done chan struct{} // closed when kept is set
	kept *keptRows     // nil: the read must run alone
}

func (t *trips) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if ctx.Value(smallKey{}) == nil {
		return t.Pool.Query(ctx, sql, args...)
	}
	t.mu.Lock()
	if t.underway == 0 {
		t.underway++
		t.mu.Unlock()
		rows, err := t.Pool.Query(ctx, sql, args...)
		if err != nil {
			t.end()
			return nil, err
		}
		return &tripRows{rows, t}, nil
	}
	r := &smallRead{sql: sql, args: args, done: make(chan struct{})}
	t.waiting = append(t.waiting, r)
	t.mu.Unlock()
	if kept := t.await(ctx, r); kept != nil {
		return kept, nil
	}
	return t.Pool.Query(ctx, sql, args...)
}

func (t *trips) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...)
	return onlyRow{rows, err}
}

// await returns the rows of a read, or nil if the read must run alone.
func (t *trips) await(ctx context.Context, r *smallRead) *keptRows {
	timer := time.NewTimer(t.tripTime)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.kept
	case <-timer.C:
		t.mu.Lock()
		r.late = true
		t.begin()
		t.mu.Unlock()
		timer.Reset(t.patience)
	case <-ctx.Done():
	}
	select {
	case <-r.done:
		return r.kept
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(w *smallRead) bool { return w == r })
	return nil
}

// end ends a round trip. Waiting reads may begin the next one.
func (t *trips) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underway--
	t.begin()
}

// begin begins a round trip with the waiting reads, if there are any and no round trip is underway or the
// first read is late. The caller holds t.mu.
func (t *trips) begin() {
	n := min(len(t.waiting), maxReads)
	if n == 0 || t.underway == maxTrips || t.underway > 0 && !t.waiting[0].late {
		return
	}
	t.underway++
	reads := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	go func() {
		t.send(reads)
		t.end()
	}()
}

// send makes a round trip. Its context is independent of its callers', as other reads share it.
func (t *trips) send(reads []*smallRead) {
	var batch pgx.Batch
	for _, r := range reads {
		batch.Queue(r.sql, r.args...)
	}
	results := t.SendBatch(t.open, &batch)
	for _, r := range reads {
		r.kept = keep(results.Query())
		close(r.done)
	}
	_ = results.Close() // reads that failed run again alone
}

// tripRows are the rows of a read that went alone.
type tripRows struct {
	pgx.Rows
	trip *trips // nil: ended
}

func (r *tripRows) Close() {
	r.Rows.Close()
	if r.trip != nil {
		r.trip.end()
		r.trip = nil
	}
}

type onlyRow struct {
	rows pgx.Rows
	err  error
}

func (r onlyRow) Scan(to ...any) error {
	if r.err != nil {
		return r.err
	}
	_, err := pgx.CollectOneRow(r.rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(to...) })
	return err
}

// keptRows are the rows of a shared read, copied from its connection. They have the methods that generated
// code and the meter call.
type keptRows struct {
	pgx.Rows // nil
	fields   []pgconn.FieldDescription
	rows     [][][]byte // the current one first
	begun    bool
}

// keep copies rows. It returns nil if that fails or the rows are too large.
func keep(from pgx.Rows, err error) *keptRows {
	if err != nil {
		return nil
	}
	defer from.Close()
	k, size := &keptRows{fields: slices.Clone(from.FieldDescriptions())}, 0
	for from.Next() {
		raw := from.RawValues()
		row := make([][]byte, len(raw))
		for i, value := range raw {
			row[i] = bytes.Clone(value) // nil stays nil, which is NULL
			size += len(value)
		}
		if k.rows = append(k.rows, row); size > keptBytes {
			return nil
		}
	}
	if from.Err() != nil {
		return nil
	}
	return k
}

func (k *keptRows) Next() bool {
	if k.begun && len(k.rows) > 0 {
		k.rows = k.rows[1:]
	}
	k.begun = true
	return len(k.rows) > 0
}

func (k *keptRows) RawValues() [][]byte { return k.rows[0] }
func (k *keptRows) Err() error          { return nil }
func (k *keptRows) Close()              { k.rows = nil }

func (k *keptRows) Scan(to ...any) error {
	types := typeMaps.Get().(*pgtype.Map)
	defer typeMaps.Put(types)
	for i, field := range k.fields {
		if err := types.Scan(field.DataTypeOID, field.Format, k.rows[0][i], to[i]); err != nil {
			return pgx.ScanArgError{ColumnIndex: i, FieldName: field.Name, Err: err}
		}
	}
	return nil
}

// typeMaps decode values as connections do. Each connection has its own type map, which is not safe for
// concurrent use.
var typeMaps = sync.Pool{New: func() any {
	types := pgtype.NewMap()
	registerTypes(types)
	return types
}}
