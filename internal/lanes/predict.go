package lanes

import (
	"math"
	"time"
)

// Memory is how long work took the last times.
type Memory struct {
	Seconds float64 // the last time
	Before  float64 // the time before; 0 if there was none
	AtLeast bool    // it timed out the last time: it takes longer
	Behind  float64 // seconds from the visit before to the last update; 0 if unknown
}

// mostCatchUp bounds the factor of Behind, both ways: not all that a visit does is for news.
const mostCatchUp = 8

// Expect returns how long work is expected to take, in seconds, that is behind by some
// seconds (0 if unknown).
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

// Choose returns the lane, in the order of growing limits, that work goes to: the first
// in which it is expected to be done. expected is in seconds, 0 if unknown. What was
// tried before doesn't go to the first lane.
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

// A Sketch is a histogram of how long work took: weights by bucket.
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

// Quantile returns the time, in seconds, within which a part of the work was done; 0 for
// an empty sketch. It is never too small, and at most a quarter too large.
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

// Mean returns the mean time of the work that took longer than from and no longer than to; 0 if none did. The times of a
// bucket count as its middle.
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

// leastWeight is the weight from which on a sketch is used.
const leastWeight = 3

// Typical returns how long unknown work takes, in seconds: the median of the first
// sketch of enough weight; 0 if there is none.
func Typical(sketches ...Sketch) float64 {
	for _, s := range sketches {
		if s.Weight() >= leastWeight {
			return s.Quantile(0.5)
		}
	}
	return 0
}
