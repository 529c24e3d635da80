package door

import "testing"

// A connection has a large buffer while an answer fills the small one, and not between two messages: it may be idle then.
func TestLargeBuffersAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		whole, have int
		between     bool
		large       bool
		held        int
	}{
		"less than the small buffer":            {downSize - 100, downSize - 100, true, false, 0},
		"a message goes on":                     {downSize - 10, downSize, false, true, 10},
		"a large message goes on":               {downSize, downSize, false, true, 0},
		"the last message ends with the buffer": {downSize, downSize, true, false, 0},
	} {
		b := newBuffer()
		b.keep(c.whole, c.have, c.between)
		if large := b.large != nil; large != c.large || b.held != c.held {
			t.Errorf("%s: a large buffer: %v, %d bytes held", name, large, b.held)
		}
		if !c.large {
			continue
		}
		b.keep(downSize, downSize, true)
		if b.large != nil {
			t.Errorf("%s: the large buffer stays between messages", name)
		}
	}
}
