package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// MaxPerUser is the number of sessions a user has; one more ends the oldest. Concurrent logins may exceed it
// until the next login.
const MaxPerUser = 10

// maxListed bounds List.
const maxListed = 10_000

// patience bounds each query, including the wait for a connection.
const patience = 5 * time.Second

// keyAge is the greatest age of the form key in memory.
const keyAge = time.Minute

// Store has the sessions of a database. It is safe for concurrent use.
type Store struct {
	db *postgres.DB
	q  *queries.Queries

	mu   sync.Mutex
	key  []byte    // the form key
	read time.Time // when key was read
}

// New returns the store on a database.
func New(db *postgres.DB) *Store { return &Store{db: db, q: postgres.QueriesOf(db)} }

// Session is a session that has not ended. Times are by the database's clock.
type Session struct {
	ID      int64     `json:"id"`
	Who     string    `json:"user"`
	Began   time.Time `json:"began"`
	Ends    time.Time `json:"ends"`
	Address string    `json:"address"` // the client's address at login
}

// Login describes a new session.
type Login struct {
	Who        string
	Credential [sha256.Size]byte // a hash of the user and the credential that was checked: see Found
	Address    string
}

// Found is the session with a key.
type Found struct {
	ID         int64
	Who        string
	Credential [sha256.Size]byte
}

// FormKey returns the form key, at most a minute old. It creates one if the database has none.
func (s *Store) FormKey(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	key, age := s.key, time.Since(s.read)
	s.mu.Unlock()
	if key != nil && age < keyAge {
		return key, nil
	}
	var keys [][]byte
	err := service.Within(ctx, patience, func(ctx context.Context) (err error) {
		if keys, err = s.q.FormKey(ctx); err != nil || len(keys) > 0 {
			return err
		}
		made := make([]byte, sha256.Size)
		_, _ = rand.Read(made) // it never fails
		if err = s.q.MakeFormKey(ctx, made); err == nil {
			keys, err = s.q.FormKey(ctx) // another process may have created it
		}
		return err
	})
	if err == nil && len(keys) == 0 {
		err = errors.New("it was deleted meanwhile")
	}
	if err != nil {
		return nil, stmt.Failed(err, "read the key of forms")
	}
	s.keep(keys[0])
	return keys[0], nil
}

func (s *Store) keep(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.read = key, time.Now()
}

// Begin begins a session with the key, and ends the user's oldest ones beyond Most.
func (s *Store) Begin(ctx context.Context, key []byte, l Login, life time.Duration) error {
	hash := sha256.Sum256(key)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.db.Transact(ctx, postgres.Plainly, func(ctx context.Context, tx *postgres.Tx) error {
		err := tx.Q.BeginSession(ctx, queries.BeginSessionParams{Key: hash[:], Who: l.Who, Credential: l.Credential[:], Seconds: life.Seconds(), Address: l.Address})
		if err != nil {
			return err
		}
		return tx.Q.BoundSessions(ctx, queries.BoundSessionsParams{Who: l.Who, Most: MaxPerUser})
	})
	return stmt.Failed(err, "begin a session")
}

// Find returns the session with the key; nil if there is none or it has ended.
func (s *Store) Find(ctx context.Context, key []byte) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hash := sha256.Sum256(key)
	row, err := stmt.First(s.q.Session(ctx, hash[:]))
	if err != nil || row == nil {
		return nil, stmt.Failed(err, "find a session")
	}
	f := &Found{ID: row.ID, Who: row.Who}
	copy(f.Credential[:], row.Credential)
	return f, nil
}

// End ends the session with the key, and reports whether there was one.
func (s *Store) End(ctx context.Context, key []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hash := sha256.Sum256(key)
	n, err := s.q.EndSession(ctx, hash[:])
	return n > 0, stmt.Failed(err, "end a session")
}

// List returns up to 10,000 sessions, the newest first.
func (s *Store) List(ctx context.Context) ([]Session, error) {
	rows, err := s.q.Sessions(ctx, maxListed)
	return stmt.List(rows, stmt.Failed(err, "read the sessions"), func(r queries.SessionsRow) Session { return Session(r) })
}

// EndSome ends the sessions with the numbers, and all of the users. It returns their number.
func (s *Store) EndSome(ctx context.Context, ids []int64, users []string) (int64, error) {
	n, err := s.q.EndSessions(ctx, queries.EndSessionsParams{Ids: ids, Who: users})
	return n, stmt.Failed(err, "end sessions")
}

// EndAll ends all sessions and deletes the form key: open forms have to be loaded again. It returns the
// number of sessions.
func (s *Store) EndAll(ctx context.Context) (ended int64, err error) {
	err = s.db.Transact(ctx, postgres.Plainly, func(ctx context.Context, tx *postgres.Tx) error {
		var err error
		if ended, err = tx.Q.EndSessions(ctx, queries.EndSessionsParams{Everyones: true}); err != nil {
			return err
		}
		return tx.Q.ForgetFormKey(ctx)
	})
	s.keep(nil)
	return ended, stmt.Failed(err, "end all sessions")
}
