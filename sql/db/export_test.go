package db

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var PeerFacts = peerFacts

// LockCandidates takes the lock of who drains or builds candidates.
func (tx *Tx) LockCandidates(ctx context.Context) error { return tx.q.LockCandidates(ctx) }

// Inner returns the transaction itself.
func (tx *Tx) Inner() pgx.Tx { return tx.tx }

// SocketOf returns the socket under a connection.
func SocketOf(conn *pgconn.PgConn) (socket int) {
	raw, err := watchedUnder(conn).Conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { socket = int(fd) })
	}
	if err != nil {
		panic(err)
	}
	return socket
}

// Raw returns the transaction of PostgreSQL's client.
func (tx *Tx) Raw() pgx.Tx { return tx.tx }

// BoundGraphs bounds the next round of the drain of graphs to so many tasks, as rounds before
// that timed out would; 0: no bound.
func (s GraphStore) BoundGraphs(tasks int) { s.drains.graphs.bound.Store(int64(tasks)) }

// SmallReads is how a Store reads, with statements of any kind.
func (s *Store) SmallReads() metered { return metered{s.small} }

// SmallTrips returns how many round trips of small reads are under way, and how many reads wait.
func (s *Store) SmallTrips() [2]int {
	s.small.mu.Lock()
	defer s.small.mu.Unlock()
	return [2]int{s.small.underway, len(s.small.waiting)}
}

// Patient sets how long small reads wait for one another.
func (o Options) Patient(patience time.Duration) Options { o.patience = patience; return o }

// TripTime sets after how long small reads that wait begin another round trip.
func (o Options) TripTime(d time.Duration) Options { o.tripTime = d; return o }

// Searches and steps of actions look at fewer tasks in tests, and are taken again sooner.
func init() { searchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
