package hints

import (
	"fmt"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// A key owes at most its burst, however many events come at once, and then waits for one event.
func TestLimiterTakesMoreThanABurst(t *testing.T) {
	t.Parallel()
	for name, spend := range map[string]func(*limiter[string]){
		"take":   func(l *limiter[string]) { l.take("a", 1000, noon) },
		"charge": func(l *limiter[string]) { l.charge("a", 1000, noon) },
	} {
		l := newLimiter[string](10, 20)
		spend(l)
		if wait, ok := l.take("a", 1, noon); ok || wait != 100*time.Millisecond {
			t.Errorf("%s: %v after %s, want the next after 100ms", name, ok, wait)
		}
		if _, ok := l.take("b", 1, noon); !ok {
			t.Errorf("%s: another key waits", name)
		}
	}
}

// Addresses without end take bounded memory. Those that owe nothing are forgotten first.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	l, r := newLimiter[int](1, 2), recent[int]{}
	l.take(-1, 2, noon)
	for key := range maxKeys - 1 {
		l.of(key, noon)
		r.add(key, noon, noon)
	}
	if _, ok := l.take(maxKeys, 1, noon); !ok || len(l.by) > 2 {
		t.Errorf("%d keys, want the new one and the one that owes", len(l.by))
	}
	if _, ok := l.take(-1, 1, noon); ok {
		t.Error("what a key owes is forgotten")
	}
	for key := range 2 * maxKeys {
		l.take(key, 1, noon)
		r.add(key, noon.Add(time.Hour), noon)
		if len(l.by) > maxKeys || len(r.until) > maxKeys {
			t.Fatalf("%d keys that owe, %d recent ones, want at most %d", len(l.by), len(r.until), maxKeys)
		}
	}
}

// Webhooks are remembered by source and body, the last ones also after a turn, and in bounded memory.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	d := deliveries{maxOfOneSet: 10}
	for i := range 100 {
		d.add(hashOf("a", fmt.Append(nil, i)), noon)
		if n := len(d.young) + len(d.old); n > 20 {
			t.Fatalf("%d are remembered, want at most 20", n)
		}
	}
	for i := 90; i < 100; i++ {
		if !d.known(hashOf("a", fmt.Append(nil, i)), noon) {
			t.Errorf("%d is forgotten", i)
		}
	}
	if d.known(hashOf("b", []byte("99")), noon) {
		t.Error("the same body of another source is known")
	}
}
