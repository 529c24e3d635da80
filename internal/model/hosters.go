package model

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// HosterLimit has the limits of a hoster; 0 is unlimited.
type HosterLimit struct {
	MaxInFlight int `yaml:"max_in_flight,omitempty"` // claimed and without a known end
	PerMinute   int `yaml:"per_minute,omitempty"`    // claimed in any minute

	// MinInFlight is the least limit that refusals lower the visits in flight to; 0 is 1.
	MinInFlight int `yaml:"min_in_flight,omitempty"`
	// NoBackoff leaves the hoster alone when it refuses visits.
	NoBackoff bool `yaml:"no_backoff,omitempty"`
}

// Limited reports whether any limit is set.
func (l HosterLimit) Limited() bool { return l.MaxInFlight > 0 || l.PerMinute > 0 }

// Reached reports which limits a hoster has reached. inFlight are its visits in flight, lastMinute the claims of the
// last minute.
func (l HosterLimit) Reached(inFlight, lastMinute int) (maxInFlight, perMinute bool) {
	return l.MaxInFlight > 0 && inFlight >= l.MaxInFlight, l.PerMinute > 0 && lastMinute >= l.PerMinute
}

// Hosters has the limits of hosters. The name of a hoster is that of a lister's instance, as for
// ShareByListerInstance, or a host in lower case.
type Hosters struct {
	Limits  map[string]HosterLimit `yaml:"limits,omitempty"`
	Default HosterLimit            `yaml:"default,omitempty"` // for each lister's instance that is not in Limits
	// LostAfter is how long a visit counts as in flight after a worker started it, if no event of its end comes.
	LostAfter time.Duration `yaml:"lost_after"`
	// Backoff lowers the limits of hosters that refuse visits; nil: refusals change no limit.
	Backoff *HosterBackoff `yaml:"backoff,omitempty"`
}

// HosterBackoff bounds how long the limit of a hoster that refused a visit stays low. Both are positive.
type HosterBackoff struct {
	Min time.Duration `yaml:"min"` // after the first refusal, then doubled
	Max time.Duration `yaml:"max"`
}

// DefaultHosterBackoff are the default bounds.
var DefaultHosterBackoff = HosterBackoff{Min: time.Minute, Max: 24 * time.Hour}

// DefaultHosterLostAfter is the default of Hosters.LostAfter.
const DefaultHosterLostAfter = 24 * time.Hour

// Any reports whether any hoster has a limit, or may get one by refusals.
func (h Hosters) Any() bool { return h.Configured() || h.Backoff != nil }

// Configured reports whether the configuration limits any hoster.
func (h Hosters) Configured() bool {
	if h.Default.Limited() {
		return true
	}
	for _, l := range h.Limits {
		if l.Limited() {
			return true
		}
	}
	return false
}

// Loaded returns the hosters whose visits in flight count for a limit: those with a configured one, and those that
// refuse visits. It returns nil for all hosters, if there is a default limit.
func (h Hosters) Loaded(refusing ...string) []string {
	if h.Default.Limited() {
		return nil
	}
	names := append([]string{}, refusing...)
	for hoster, l := range h.Limits {
		if l.Limited() {
			names = append(names, hoster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// BacksOff reports whether refusals lower the limit of a hoster.
func (h Hosters) BacksOff(hoster string) bool {
	return h.Backoff != nil && hoster != "" && !h.Limit(hoster).NoBackoff
}

// Counting returns the hosters for whose limits a visit of an origin counts, or may count when they refuse visits:
// its lister's instance and its host.
func (h Hosters) Counting(instance, url string) (names []string) {
	for _, hoster := range []string{instance, HostOf(url)} {
		if h.Limit(hoster).Limited() || h.BacksOff(hoster) {
			names = append(names, hoster)
		}
	}
	return names
}

// Limit returns the limit of a hoster.
func (h Hosters) Limit(hoster string) HosterLimit {
	if l, ok := h.Limits[hoster]; ok || !IsInstance(hoster) {
		return l
	}
	return h.Default
}

// IsInstance reports whether a hoster is an instance of a lister.
func IsInstance(hoster string) bool { return strings.Contains(hoster, "/") }

// HostPattern matches the host in the URL of an origin, in lower case. Go and PostgreSQL use the pattern.
const HostPattern = `^[a-z0-9.+-]+://(?:[^/?#@]*@)?(\[[^]/?#@]*\]|[^/?#@:]+)`

var host = regexp.MustCompile(HostPattern)

// HostOf returns the host of an origin's URL, in lower case; "" if it has none.
func HostOf(url string) string {
	if m := host.FindStringSubmatch(strings.ToLower(url)); m != nil {
		return m[1]
	}
	return ""
}
