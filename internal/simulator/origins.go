package simulator

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"swh-scheduler/internal/scheduler"
)

// The model of origins (the peer's): each has commits at even intervals, from an
// epoch on, and a visit takes a time for each commit since the last one.
const (
	minRunTime       = 0.5    // seconds
	maxRunTime       = 7200.0 // seconds
	perCommitRunTime = 0.1    // seconds

	// commitBuckets is how many different intervals there are, from 1 second to
	// longestInterval seconds, evenly spread over their logarithm.
	commitBuckets   = 1 << 16
	longestInterval = 10 * 365 * 24 * 3600

	// unvisited is how long ago the last visit is taken to be of an origin that
	// this run has not visited.
	unvisited = 365 * 24 * time.Hour
)

// epoch is when all origins began.
var epoch = time.Date(2015, 9, 1, 0, 0, 0, 0, time.UTC)

// CommitInterval is the seconds between two commits of an origin, which follow
// from its URL alone.
func CommitInterval(url string) float64 {
	sum := md5.Sum([]byte(url))
	bucket := binary.LittleEndian.Uint16(sum[:])
	return math.Pow(longestInterval, float64(bucket)/commitBuckets)
}

// commits is how many commits an origin has, and how many seconds ago the last
// one was.
func commits(interval float64, now time.Time) (n, ago float64) {
	since := float64(now.Sub(epoch).Microseconds()) / 1e6
	ago = math.Mod(since, interval)
	return math.Round((since - ago) / interval), ago
}

// lastUpdate is when an origin last changed.
func lastUpdate(interval float64, now time.Time) time.Time {
	_, ago := commits(interval, now)
	return now.Add(-seconds(ago)).Round(time.Microsecond)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// originState is what loaders know of an origin.
type originState struct {
	interval  float64
	visited   bool
	lastVisit time.Time
	snapshot  []byte // the latest seen by a full visit that ended
}

// loaders visit origins.
type loaders struct {
	origins map[scheduler.OriginKey]*originState
}

func newLoaders() *loaders {
	return &loaders{origins: make(map[scheduler.OriginKey]*originState)}
}

// load is what a visit will be.
type load struct {
	runTime  float64 // seconds
	full     bool    // otherwise partial, without a snapshot
	snapshot []byte
}

// visit begins a visit. It counts as the origin's last one from its beginning,
// however it ends.
func (l *loaders) visit(key scheduler.OriginKey, now time.Time) load {
	o := l.origins[key]
	if o == nil {
		o = &originState{interval: CommitInterval(key.URL)}
		l.origins[key] = o
	}
	since := unvisited
	if o.visited {
		since = now.Sub(o.lastVisit)
	}
	o.visited, o.lastVisit = true, now
	runTime, full := RunTime(o.interval, since)
	if !full {
		return load{runTime: runTime}
	}
	n, _ := commits(o.interval, now)
	return load{runTime: runTime, full: true, snapshot: snapshotID(key, n)}
}

// RunTime is how long a visit takes, in seconds, of an origin with a commit each
// interval seconds, if the last one was some time ago. One that would take too long is
// not full: such visits usually fail.
func RunTime(interval float64, since time.Duration) (seconds float64, full bool) {
	seconds = minRunTime + perCommitRunTime*math.Trunc(since.Seconds()/interval)
	if seconds > maxRunTime {
		return maxRunTime, false
	}
	return seconds, true
}

// ended notes what a visit found, and says whether that was new.
func (l *loaders) ended(key scheduler.OriginKey, done load) (eventful bool) {
	if !done.full {
		return false
	}
	o := l.origins[key]
	eventful = string(o.snapshot) != string(done.snapshot)
	o.snapshot = done.snapshot
	return eventful
}

// snapshotID identifies what an origin with n commits holds.
func snapshotID(key scheduler.OriginKey, n float64) []byte {
	text := strconv.FormatFloat(n, 'f', 1, 64)
	sum := sha1.Sum(fmt.Appendf(nil, "%s %s %s", key.VisitType, key.URL, text))
	return sum[:]
}
