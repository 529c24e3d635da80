package hints

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

// limiter lets each key have some events a second, and a burst. It stores at most maxKeys keys: those that have events
// left over, and beyond that all, are forgotten. The zero value is unusable; it is safe for concurrent use.
type limiter[K comparable] struct {
	perSecond, burst float64

	mu sync.Mutex
	by map[K]bucket
}

const maxKeys = 10_000

// bucket has the events that a key may have, as of a date.
type bucket struct {
	left float64
	at   time.Time
}

func newLimiter[K comparable](perSecond, burst float64) *limiter[K] {
	return &limiter[K]{perSecond: perSecond, burst: burst, by: map[K]bucket{}}
}

// take takes events of a key. If the key has none left, it takes none and returns how long to wait for them.
func (l *limiter[K]) take(key K, events float64, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.filled(key, now)
	if b.left <= 0 {
		return time.Duration((1 - b.left) / l.perSecond * float64(time.Second)), false
	}
	b.left -= events // it may owe some
	l.store(key, b, now)
	return 0, true
}

// charge takes events of a key, left or not.
func (l *limiter[K]) charge(key K, events float64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.filled(key, now)
	b.left = max(b.left-events, -l.burst)
	l.store(key, b, now)
}

func (l *limiter[K]) filled(key K, now time.Time) bucket {
	b, known := l.by[key]
	if !known {
		return bucket{l.burst, now}
	}
	passed := max(0, now.Sub(b.at).Seconds())
	return bucket{min(l.burst, b.left+passed*l.perSecond), now}
}

func (l *limiter[K]) store(key K, b bucket, now time.Time) {
	if _, known := l.by[key]; !known && len(l.by) >= maxKeys {
		maps.DeleteFunc(l.by, func(key K, _ bucket) bool { return l.filled(key, now).left >= l.burst })
		if len(l.by) >= maxKeys {
			clear(l.by)
		}
	}
	l.by[key] = b
}

const (
	deliveryKept  = 2 * time.Hour
	maxDeliveries = 100_000
)

// deliveries are the hashes of webhooks that were written, of the last deliveryKept, maxDeliveries at most.
type deliveries struct {
	mu          sync.Mutex
	young, old  map[[16]byte]struct{} // young since the last turn
	turned      time.Time
	maxOfOneSet int // 0: half of maxDeliveries
}

// hashOf is the key of a webhook of a source.
func hashOf(source string, body []byte) [16]byte {
	h := sha256.New()
	h.Write([]byte(source + "\x00"))
	h.Write(body)
	return [16]byte(h.Sum(nil))
}

func (d *deliveries) known(key [16]byte, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(now)
	_, young := d.young[key]
	_, old := d.old[key]
	return young || old
}

func (d *deliveries) add(key [16]byte, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(now)
	d.young[key] = struct{}{}
}

// turn forgets the old ones after half of deliveryKept, or if there are too many young ones. The caller holds mu.
func (d *deliveries) turn(now time.Time) {
	most := d.maxOfOneSet
	if most == 0 {
		most = maxDeliveries / 2
	}
	for range 2 {
		if d.young != nil && now.Sub(d.turned) < deliveryKept/2 && len(d.young) < most {
			return
		}
		if now.Sub(d.turned) >= deliveryKept {
			d.young = nil
		}
		d.old, d.young, d.turned = d.young, map[[16]byte]struct{}{}, now
	}
}
