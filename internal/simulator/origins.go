package simulator

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"swh-scheduler/internal/model"
)

// The Python scheduler's model of origins. Each has commits at even intervals since epoch, and a visit takes some
// time for each commit since the last visit. Times are in seconds.
const (
	minRunTime       = 0.5
	maxRunTime       = 7200.0
	perCommitRunTime = 0.1

	commitBuckets   = 1 << 16 // number of different intervals, evenly spread over their logarithm
	longestInterval = 10 * 365 * 24 * 3600

	unvisited = 365 * 24 * time.Hour // assumed time since the last visit of an origin that was not visited in this run
)

var epoch = time.Date(2015, 9, 1, 0, 0, 0, 0, time.UTC)

// CommitInterval returns the seconds between two commits of an origin.
func CommitInterval(url string) float64 {
	sum := md5.Sum([]byte(url))
	bucket := binary.LittleEndian.Uint16(sum[:])
	return math.Pow(longestInterval, float64(bucket)/commitBuckets)
}

// commits returns the number of commits of an origin, and the seconds since the last one.
func commits(interval float64, now time.Time) (n, ago float64) {
	since := float64(now.Sub(epoch).Microseconds()) / 1e6
	ago = math.Mod(since, interval)
	return math.Round((since - ago) / interval), ago
}

func lastUpdate(interval float64, now time.Time) time.Time {
	_, ago := commits(interval, now)
	return now.Add(-model.Duration(ago)).Round(time.Microsecond)
}

type originState struct {
	interval  float64
	visited   bool
	lastVisit time.Time
	snapshot  []byte // of the last full visit that ended
}

type loaders map[model.OriginKey]*originState

type load struct {
	runTime  float64 // seconds
	full     bool    // otherwise partial, without a snapshot
	snapshot []byte
}

// visit begins a visit, which counts as the origin's last one even if it fails.
func (l loaders) visit(key model.OriginKey, now time.Time) load {
	o := l[key]
	if o == nil {
		o = &originState{interval: CommitInterval(key.URL)}
		l[key] = o
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

// RunTime returns the seconds of a visit, since after the last one, of an origin with a commit every interval
// seconds. A visit over the time limit isn't full.
func RunTime(interval float64, since time.Duration) (seconds float64, full bool) {
	seconds = minRunTime + perCommitRunTime*math.Trunc(since.Seconds()/interval)
	if seconds > maxRunTime {
		return maxRunTime, false
	}
	return seconds, true
}

// ended records the snapshot of a visit, and reports whether it is new.
func (l loaders) ended(key model.OriginKey, done load) (eventful bool) {
	if !done.full {
		return false
	}
	o := l[key]
	eventful = string(o.snapshot) != string(done.snapshot)
	o.snapshot = done.snapshot
	return eventful
}

// snapshotID returns the snapshot of an origin with n commits.
func snapshotID(key model.OriginKey, n float64) []byte {
	text := strconv.FormatFloat(n, 'f', 1, 64)
	sum := sha1.Sum(fmt.Appendf(nil, "%s %s %s", key.VisitType, key.URL, text))
	return sum[:]
}
