package hints

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter lets each key have some events a second, and a burst. It stores at most maxKeys keys: those that have all events
// left, and beyond that all, are forgotten. The zero value is unusable; it is safe for concurrent use.
type limiter[K comparable] struct {
	perSecond, burst int

	mu sync.Mutex
	by map[K]*rate.Limiter
}

const maxKeys = 10_000

func newLimiter[K comparable](perSecond, burst int) *limiter[K] {
	return &limiter[K]{perSecond: perSecond, burst: burst, by: map[K]*rate.Limiter{}}
}

// take takes events of a key, of which the key then may owe some. If the key has none left, it takes none and returns
// how long to wait for one.
func (l *limiter[K]) take(key K, events int, now time.Time) (wait time.Duration, ok bool) {
	of := l.of(key, now)
	if left := of.TokensAt(now); left < 1 {
		return time.Duration((1 - left) / float64(l.perSecond) * float64(time.Second)), false
	}
	of.ReserveN(now, min(events, l.burst))
	return 0, true
}

// charge takes events of a key, left or not.
func (l *limiter[K]) charge(key K, events int, now time.Time) {
	l.of(key, now).ReserveN(now, min(events, l.burst))
}

func (l *limiter[K]) of(key K, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[key] == nil {
		if len(l.by) >= maxKeys {
			maps.DeleteFunc(l.by, func(_ K, of *rate.Limiter) bool { return of.TokensAt(now) >= float64(l.burst) })
			if len(l.by) >= maxKeys {
				clear(l.by)
			}
		}
		l.by[key] = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
	}
	return l.by[key]
}

// recent stores keys, each until a moment, and at most maxKeys. It is safe for concurrent use.
type recent[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

func (r *recent[K]) add(key K, until, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.until[key]; !known && len(r.until) >= maxKeys {
		maps.DeleteFunc(r.until, func(_ K, until time.Time) bool { return until.Before(now) })
		if len(r.until) >= maxKeys {
			clear(r.until)
		}
	}
	if r.until == nil {
		r.until = map[K]time.Time{}
	}
	r.until[key] = until
}

func (r *recent[K]) has(key K, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until[key])
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
	if d.young != nil && now.Sub(d.turned) < deliveryKept/2 && len(d.young) < most {
		return
	}
	if now.Sub(d.turned) >= deliveryKept {
		d.young = nil
	}
	d.old, d.young, d.turned = d.young, map[[16]byte]struct{}{}, now
}
