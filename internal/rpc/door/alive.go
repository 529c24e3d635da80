package door

import (
	"bytes"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A client that waits for the answer of a long statement can't ping, and a proxy cuts a connection that is
// silent. So the server sends a sign of life meanwhile: a ParameterStatus, which may come between any two
// messages, and which every client of PostgreSQL ignores.
//
// A sign says that the RPC server lives, not that the database does. So Dial's connections drop it: whoever
// judges their silence, as package db does, judges that of the database.
var signOfLife = encodeSign()

func encodeSign() []byte {
	sign, err := (&pgproto3.ParameterStatus{Name: "swh_scheduler.door", Value: "open"}).Encode(nil)
	if err != nil {
		panic(fmt.Sprintf("the sign of life: %v", err)) // it is the same at each start
	}
	return sign
}

// signs finds signs of life in what a client reads. The zero value is at the beginning of the stream.
type signs struct {
	stream  frames
	foreign bool // the stream isn't PostgreSQL's
}

// drop removes the signs with which a part of the stream begins, and returns what is left of its n bytes.
// Signs behind other messages stay.
func (s *signs) drop(part []byte, n int) int {
	for !s.foreign && s.stream.between() && bytes.HasPrefix(part[:n], signOfLife) {
		n = copy(part, part[len(signOfLife):n])
	}
	if !s.foreign {
		s.foreign = s.stream.read(part[:n], func(byte, byte) {}) != nil
	}
	return n
}
