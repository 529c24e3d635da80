// Package bench is for benchmarks of two sides: ours, and the peer's or a baseline.
// Each side is a sub-benchmark "side=NAME"; `make bench` has benchstat compare them.
package bench

import "testing"

// Report reports the figures of a side, by their units, in place of its time.
func Report(b *testing.B, side string, figures map[string]float64) {
	b.Helper()
	b.Run("side="+side, func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		for unit, figure := range figures {
			b.ReportMetric(figure, unit)
		}
	})
}
