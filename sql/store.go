package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/sql/internal/queries"
)

// Options say how a program uses the database.
type Options struct {
	// Command is the subcommand that runs. The server shows each connection as
	// "swh-scheduler <command>", unless the DSN sets application_name.
	Command string
	// MaxConns bounds the connections of the pool; 0 is the peer's default of 10.
	// A pool_max_conns in the DSN wins.
	MaxConns int32
}

// A Store is the scheduler's database: a pool of connections and the questions
// that can be asked of it. It is safe for concurrent use.
type Store struct {
	asker
	pool *pgxpool.Pool
}

// A Tx is a transaction of the Store, with the same questions and those that
// make sense in a transaction only. It is not safe for concurrent use.
type Tx struct {
	asker
	tx pgx.Tx
}

// asker holds the methods that are one statement, in a transaction or not.
type asker struct {
	q *queries.Queries
}

// Open reads the DSN and prepares a pool; errors are of the DSN only. The first
// connection is made when it is needed, so a database that is away is an error
// of the first call (usually CheckVersion) and can be tried again.
func Open(_ context.Context, dsn string, o Options) (*Store, error) {
	config, err := poolConfig(dsn, o)
	if err != nil {
		return nil, err
	}
	config.MaxConnIdleTime = 5 * time.Minute
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		types := conn.TypeMap()
		scanTimesAsUTC(types)
		// For the modes without prepared statements, where the server doesn't tell
		// a parameter's type.
		types.RegisterDefaultPgType([]uuid.UUID{}, "_uuid")
		return nil
	}
	// The pool outlives the context of this call: it lives until Close.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", redacted(config.ConnConfig), err)
	}
	return &Store{asker: asker{q: queries.New(pool)}, pool: pool}, nil
}

// scanTimesAsUTC makes every timestamptz read a time in UTC, where pgx would
// give one in the zone of the machine.
func scanTimesAsUTC(types *pgtype.Map) {
	utc := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	}
	types.RegisterType(utc)
	types.RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: utc},
	})
}

// Close closes the pool, waiting for connections in use to be given back.
func (s *Store) Close() { s.pool.Close() }

// Pool is the pool itself, for what has no method here.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// InTx runs do in a transaction (read committed), which is committed if do
// returns nil and rolled back otherwise. An error of the commit may leave it
// unknown whether the transaction took place (the connection was lost). The
// transaction is not tried again here: do may have done what cannot be undone.
func (s *Store) InTx(ctx context.Context, do func(context.Context, *Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return do(ctx, &Tx{asker: asker{q: s.q.WithTx(tx)}, tx: tx})
	})
}
