package lanes

import (
	"math"
	"time"
)

// Memory has the last runtimes of work.
type Memory struct {
	Seconds float64 // the last time
	Before  float64 // the time before; 0 if there was none
	AtLeast bool    // the last run timed out: the work takes longer than Seconds
	Behind  float64 // seconds from the visit before to the last update; 0 if unknown
}

// mostCatchUp bounds the factor of Behind, in both directions, as a part of a visit's time doesn't depend on changes.
const mostCatchUp = 8

// Expect returns the expected runtime in seconds. behind is the number of seconds from the last visit to the last
// update, 0 if unknown.
func (m Memory) Expect(behind float64) float64 {
	if m.AtLeast {
		return 2 * m.Seconds
	}
	expect := m.Seconds
	if m.Before > 0 {
		expect = (2*m.Seconds + m.Before) / 3
	}
	if m.Behind > 0 && behind > 0 {
		expect *= min(mostCatchUp, max(1.0/mostCatchUp, behind/m.Behind))
	}
	return expect
}

// Choose returns the index of the lane for a message: the first lane whose limit covers the expected runtime. limits
// are in growing order. expected is in seconds, 0 if unknown. A message that was tried before never goes to the first
// lane.
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

// A Sketch is a histogram of runtimes: weights by bucket.
type Sketch map[int16]float64

// Times up to bucketFirst seconds are in bucket 0, and each further bucket ends at
// bucketGrowth times the end of the one before; the last one, of more than a year,
// has no end.
const (
	bucketFirst  = 0.1
	bucketGrowth = 1.25
	bucketLast   = 90
)

// Bucket returns the bucket of a time in seconds.
func Bucket(seconds float64) int16 {
	if !(seconds > bucketFirst) {
		return 0
	}
	return int16(min(bucketLast, math.Ceil(math.Log(seconds/bucketFirst)/math.Log(bucketGrowth)-1e-9)))
}

// BucketEnd returns the longest time of a bucket, in seconds.
func BucketEnd(bucket int16) float64 { return bucketFirst * math.Pow(bucketGrowth, float64(bucket)) }

// Weight returns the sum of the weights.
func (s Sketch) Weight() float64 {
	sum := 0.0
	for _, w := range s {
		sum += w
	}
	return sum
}

// Quantile returns the time, in seconds, within which a part of the work ended; 0 for an empty sketch. It is at least
// the true quantile, and at most a quarter larger.
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

// Mean returns the mean time of work that took longer than from and no longer than to; 0 if there is none. It uses
// the middle of each bucket.
func (s Sketch) Mean(from, to time.Duration) time.Duration {
	sum, weight := 0.0, 0.0
	for bucket, w := range s {
		middle := BucketEnd(bucket) * (1 + 1/bucketGrowth) / 2
		if middle > from.Seconds() && middle <= to.Seconds() {
			sum, weight = sum+w*middle, weight+w
		}
	}
	if weight == 0 {
		return 0
	}
	return time.Duration(sum / weight * float64(time.Second))
}

// SketchHalfLife is the half-life of the weights.
const SketchHalfLife = 7 * 24 * time.Hour

// leastWeight is the least weight of a sketch that Typical uses.
const leastWeight = 3

// Typical returns the expected runtime of unknown work, in seconds: the median of the first sketch of enough weight;
// 0 if there is none.
func Typical(sketches ...Sketch) float64 {
	for _, s := range sketches {
		if s.Weight() >= leastWeight {
			return s.Quantile(0.5)
		}
	}
	return 0
}
