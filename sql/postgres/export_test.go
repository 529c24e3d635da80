package postgres

import (
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

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

// SmallReads is how a Store reads, with statements of any kind.
func (s *DB) SmallReads() metered { return metered{s.small} }

// SmallTrips returns how many round trips of small reads are under way, and how many reads wait.
func (s *DB) SmallTrips() [2]int {
	s.small.mu.Lock()
	defer s.small.mu.Unlock()
	return [2]int{s.small.underway, len(s.small.waiting)}
}

// Patient sets how long small reads wait for one another.
func (o Options) Patient(patience time.Duration) Options { o.patience = patience; return o }

// TripTime sets after how long small reads that wait begin another round trip.
func (o Options) TripTime(d time.Duration) Options { o.tripTime = d; return o }
