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

// Searches and steps of actions look at fewer tasks in tests, and are taken again sooner.
func init() { searchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
