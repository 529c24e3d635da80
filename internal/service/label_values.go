package service

import "sync"

// otherValues replaces the names beyond the first Max.
const otherValues = "other"

// LabelValues bounds the values of a label: the first Max names are kept, all others become "other". It is safe for
// concurrent use.
type LabelValues struct {
	Max int

	mu    sync.Mutex
	known map[string]bool
}

// Value returns the value for a name.
func (n *LabelValues) Value(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] {
		return name
	}
	if name == "" || len(n.known) >= n.Max {
		return otherValues
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
	return name
}
