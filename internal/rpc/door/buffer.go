package door

import "sync"

const (
	// downSize is the size of a read from the database, which sends up to 8 KiB at once.
	downSize = 10 << 10
	// bulkSize is the size of a read while more data waits than fits into downSize. Larger reads reduce switches
	// between processes on a busy host.
	bulkSize = 32 << 10
)

// bulk holds the large buffers. A connection takes one only while it fills it.
var bulk = sync.Pool{New: func() any { return new([bulkSize]byte) }}

// buffer holds bytes that were read from the database and not passed on yet.
type buffer struct {
	part  []byte // small or large
	held  int    // bytes of part that were not passed on
	small []byte
	large *[bulkSize]byte
}

func newBuffer() *buffer {
	small := make([]byte, downSize)
	return &buffer{part: small, small: small}
}

// keep keeps the bytes from whole to have for the next read. Between two messages, that is none, and the
// connection may be idle.
func (b *buffer) keep(whole, have int, between bool) {
	rest := b.part[whole:have]
	switch {
	case b.large == nil && have == len(b.part) && !between:
		b.large = bulk.Get().(*[bulkSize]byte)
		b.part = b.large[:]
		b.held = copy(b.part, rest)
	case b.large != nil && (have < downSize || between):
		b.part = b.small
		b.held = copy(b.part, rest)
		bulk.Put(b.large)
		b.large = nil
	default:
		b.held = copy(b.part, rest)
	}
}
