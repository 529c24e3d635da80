package door

import "sync"

const (
	// downSize is how many bytes are read at once of the database, which sends up to 8 KiB at once.
	downSize = 10 << 10
	// bulkSize is how many are read while more is waiting than fits into downSize. A host with much to do
	// then switches less often between processes.
	bulkSize = 32 << 10
)

// bulk has the large buffers, of which a connection has one only while it fills it.
var bulk = sync.Pool{New: func() any { return new([bulkSize]byte) }}

// buffer is what is read of the database, and not passed on yet.
type buffer struct {
	part  []byte // small or large
	held  int    // bytes of part that wait
	small []byte
	large *[bulkSize]byte
}

func newBuffer() *buffer {
	small := make([]byte, downSize)
	return &buffer{part: small, small: small}
}

// keep keeps what was read from whole to have, for the next read.
func (b *buffer) keep(whole, have int) {
	rest := b.part[whole:have]
	switch {
	case b.large == nil && have == len(b.part):
		b.large = bulk.Get().(*[bulkSize]byte)
		b.part = b.large[:]
		b.held = copy(b.part, rest)
	case b.large != nil && have < downSize:
		b.part = b.small
		b.held = copy(b.part, rest)
		bulk.Put(b.large)
		b.large = nil
	default:
		b.held = copy(b.part, rest)
	}
}
