// Package bench compares sides that do the same work: this scheduler, the Python scheduler, a lower bound ("limit"),
// and this scheduler with and without a feature.
//
// The sides run equally often, in turns. `make bench` makes tables of the output (see the command table).
package bench

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The sides. Names that begin with "limit:" are limits.
const (
	Ours = "ours"
	Peer = "peer" // the Python scheduler, on a database without our triggers

	// Before is another build of our program (SWH_BENCH_BEFORE).
	Before = "ours-before"
	// PeerBeside is the Python scheduler on a database with our triggers.
	PeerBeside = "peer-beside-ours"

	// Door is our daemon on `cls: remote`, with our RPC server, and PeerRemote the Python daemon with
	// the Python RPC server.
	Door       = "ours-by-the-door"
	PeerRemote = "peer-by-its-rpc-server"

	// Plain is ours without the features that the other sides have.
	Plain = "plain"
)

// Variables of the environment.
const (
	roundsVar = "SWH_BENCH_ROUNDS"
	quickVar  = "SWH_BENCH_QUICK"
	sidesVar  = "SWH_BENCH_SIDES"
	partVar   = "SWH_BENCH_SOAK"
)

// Figures are the measurements of one run, by unit. For units "…/s" higher is better, for others lower.
type Figures map[string]float64

// Side does the work of a benchmark, once a run.
type Side struct {
	Name string
	Run  func() Figures
}

// Quick reports whether benchmarks run at small sizes, only as a test.
func Quick() bool { return os.Getenv(quickVar) != "" }

// Size returns whole or, if Quick, quick.
func Size(whole, quick int) int {
	if Quick() {
		return quick
	}
	return whole
}

// Rounds returns how often each side runs: SWH_BENCH_ROUNDS, or 5, or 2 if Quick.
func Rounds(b *testing.B) int {
	b.Helper()
	text := os.Getenv(roundsVar)
	if text == "" {
		return Size(5, 2)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%s is not a number of rounds", roundsVar, text)
	}
	return n
}

// Part returns how long a part of a long benchmark lasts: SWH_BENCH_SOAK, or 5 minutes, or 2 seconds if Quick.
func Part(b *testing.B) time.Duration {
	b.Helper()
	text := os.Getenv(partVar)
	if text == "" {
		return time.Duration(Size(300, 2)) * time.Second
	}
	part, err := time.ParseDuration(text)
	if err != nil || part <= 0 {
		b.Fatalf("%s=%s is not a duration, such as 5m", partVar, text)
	}
	return part
}

// Compare runs the sides in turns, in every other round in reverse order. For each side and unit it reports
// the median as "unit", the minimum and maximum as "unit-min" and "unit-max", and the number of runs as "runs".
// It skips sides whose names don't match the regular expression SWH_BENCH_SIDES.
func Compare(b *testing.B, sides ...Side) {
	b.Helper()
	wanted, err := regexp.Compile(os.Getenv(sidesVar))
	if err != nil {
		b.Fatalf("%s: %v", sidesVar, err)
	}
	sides = slices.DeleteFunc(slices.Clone(sides), func(s Side) bool { return !wanted.MatchString(s.Name) })
	measured := map[string]map[string][]float64{} // by side and unit
	for _, side := range sides {
		measured[side.Name] = map[string][]float64{}
	}
	order := slices.Clone(sides)
	for range Rounds(b) {
		for _, side := range order {
			for unit, figure := range side.Run() {
				measured[side.Name][unit] = append(measured[side.Name][unit], figure)
			}
		}
		slices.Reverse(order)
	}
	for _, side := range sides {
		b.Run("side="+side.Name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(Rounds(b)), "runs")
			for unit, figures := range measured[side.Name] {
				b.ReportMetric(median(figures), unit)
				b.ReportMetric(slices.Min(figures), unit+"-min")
				b.ReportMetric(slices.Max(figures), unit+"-max")
			}
		})
	}
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	n := len(figures)
	return (figures[(n-1)/2] + figures[n/2]) / 2
}
