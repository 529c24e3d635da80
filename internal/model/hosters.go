package model

import (
	"regexp"
	"strings"
	"time"
)

// HosterLimit has the limits of a hoster; 0 is unlimited.
type HosterLimit struct {
	MaxInFlight int `yaml:"max_in_flight,omitempty"` // claimed and without a known end
	PerMinute   int `yaml:"per_minute,omitempty"`    // claimed in any minute
}

// Limited reports whether any limit is set.
func (l HosterLimit) Limited() bool { return l != HosterLimit{} }

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
}

// DefaultHosterLostAfter is the default of Hosters.LostAfter.
const DefaultHosterLostAfter = 24 * time.Hour

// Any reports whether any hoster has a limit.
func (h Hosters) Any() bool { return len(h.Limits) > 0 || h.Default.Limited() }

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
const HostPattern = `^[a-z0-9.+-]+://(?:[^/?#@]*@)?([^/?#@:]+)`

var host = regexp.MustCompile(HostPattern)

// HostOf returns the host of an origin's URL, in lower case; "" if it has none.
func HostOf(url string) string {
	if m := host.FindStringSubmatch(strings.ToLower(url)); m != nil {
		return m[1]
	}
	return ""
}
