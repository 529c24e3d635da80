package lanes

import (
	"math"
	"time"
)

// Memory is what is remembered of a piece of work's last times.
type Memory struct {
	Seconds float64 // it took the last time
	Before  float64 // and the time before; 0 if there was none
	AtLeast bool    // the last time was over before it was done: it takes longer
	Behind  float64 // seconds of news that it had to catch up with; 0 where not known
}

// mostCatchUp bounds by how much more news makes work longer, or less shorter: not
// all that a visit does is for news.
const mostCatchUp = 8

// Expect is how long a piece of work is expected to take, in seconds, that is
// behind by some seconds, 0 where that is not known.
func (m Memory) Expect(behind float64) float64 {
	if m.AtLeast {
		// Where it ends is not known, but not in that time.
		return 2 * m.Seconds
	}
	expect := m.Seconds
	if m.Before > 0 {
		expect = (2*m.Seconds + m.Before) / 3
	}
	if m.Behind > 0 && behind > 0 {
		expect *= min(mostCatchUp, max(1/mostCatchUp, behind/m.Behind))
	}
	return expect
}

// Choose is the lane, in the order of growing limits, that a piece of work goes to:
// the first in which it is expected to be done. expected is in seconds, 0 where it
// is not known. What was tried before doesn't go to the first lane.
func Choose(limits []time.Duration, expected float64, tried bool) int {
	lane := 0
	if tried {
		lane = 1
	}
	for lane < len(limits)-1 && expected > limits[lane].Seconds() {
		lane++
	}
	return min(lane, len(limits)-1)
}

// A Sketch counts how long pieces of work took: weights by bucket.
type Sketch map[int16]float64

// Times up to bucketFirst seconds are in bucket 0, and each further bucket ends at
// bucketGrowth times the end of the one before; the last one, of more than a year,
// has no end. A quantile is off by a quarter at most.
const (
	bucketFirst  = 0.1
	bucketGrowth = 1.25
	bucketLast   = 90
)

// Bucket is the bucket of a time in seconds.
func Bucket(seconds float64) int16 {
	if !(seconds > bucketFirst) {
		return 0
	}
	return int16(min(bucketLast, math.Ceil(math.Log(seconds/bucketFirst)/math.Log(bucketGrowth)-1e-9)))
}

// BucketEnd is the longest time of a bucket, in seconds.
func BucketEnd(bucket int16) float64 { return bucketFirst * math.Pow(bucketGrowth, float64(bucket)) }

// Weight is how much is in the sketch.
func (s Sketch) Weight() float64 {
	sum := 0.0
	for _, w := range s {
		sum += w
	}
	return sum
}

// Quantile is the time, in seconds, below which a part of the work was done; 0 of
// an empty sketch. It is never too small, and a quarter too large at most.
func (s Sketch) Quantile(part float64) float64 {
	left := part * s.Weight()
	for b := int16(0); b <= bucketLast; b++ {
		if w := s[b]; w > 0 {
			if left -= w; left <= 0 {
				return BucketEnd(b)
			}
		}
	}
	return 0
}

// SketchHalfLife is in what time what was seen counts half as much.
const SketchHalfLife = 7 * 24 * time.Hour

// leastWeight is how much must have been seen lately for a sketch to say something.
const leastWeight = 3

// Typical is how long a piece of work takes of which nothing is remembered, in
// seconds: what the middle one did of the first sketch that has seen some; 0 if
// none has.
func Typical(sketches ...Sketch) float64 {
	for _, s := range sketches {
		if s.Weight() >= leastWeight {
			return s.Quantile(0.5)
		}
	}
	return 0
}
