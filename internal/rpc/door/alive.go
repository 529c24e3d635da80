package door

import (
	"bytes"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A client that waits for the answer of a long statement can't ping, and proxies close silent connections. So the
// server sends a keepalive message meanwhile: a ParameterStatus, which may come between any two messages, and which
// every client of PostgreSQL ignores.
//
// The message shows that the RPC server is alive, not that the database is. So Dial's connections drop it: code that
// detects silence, as package db does, must detect that of the database.
var signOfLife = encodeSign()

func encodeSign() []byte {
	sign, err := (&pgproto3.ParameterStatus{Name: "swh_scheduler.door", Value: "open"}).Encode(nil)
	if err != nil {
		panic(fmt.Sprintf("the sign of life: %v", err)) // it is the same at each start
	}
	return sign
}

// signs finds keepalive messages in a client's stream. The zero value is at the beginning of the stream.
type signs struct {
	stream  frames
	foreign bool // the stream isn't PostgreSQL's
}

// drop removes the keepalive messages at the start of a part of the stream, and returns the number of bytes left of
// its n. Keepalive messages behind other messages stay.
func (s *signs) drop(part []byte, n int) int {
	for !s.foreign && s.stream.between() && bytes.HasPrefix(part[:n], signOfLife) {
		n = copy(part, part[len(signOfLife):n])
	}
	if !s.foreign {
		s.foreign = s.stream.read(part[:n], func(byte, byte) {}) != nil
	}
	return n
}
