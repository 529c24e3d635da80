package db

import (
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

var PeerFacts = peerFacts

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
