package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/pytext"
)

// curves are the parts of the benchmark Grab in the plot, in colours for colour-blind readers. A point is the
// geometric mean over policies.
var curves = []struct{ part, unit, title, colour string }{
	{"dry", "ms", "dry grab of 1,000", "#0072b2"},
	{"real", "ms", "claimed grab of 1,000", "#d55e00"},
	{"listing", "ms", "listing of 1,000", "#009e73"},
	{"journal", "ms", "1,000 visits of the journal", "#cc79a7"},
	{"build", "build-s", "build of candidates", "#555555"},
}

// point is a cost by size.
type point struct{ size, ms float64 }

// curve returns the points of a side, by size.
func (m *measurements) curve(part, unit, side string) (points []point) {
	logs := map[float64][]float64{}
	for _, name := range m.benchmarks {
		steps := strings.Split(name, "/")
		if steps[0] != "Grab" || len(steps) < 3 || steps[2] != part {
			continue
		}
		size, err := strconv.ParseFloat(strings.TrimPrefix(steps[1], "origins="), 64)
		f, measured := m.side(name, side).figure(unit)
		if err != nil || !measured || f.median <= 0 {
			continue
		}
		if unit == "build-s" {
			f.median *= 1000
		}
		logs[size] = append(logs[size], math.Log(f.median))
	}
	for size, all := range logs {
		sum := 0.0
		for _, l := range all {
			sum += l
		}
		points = append(points, point{size, math.Exp(sum / float64(len(all)))})
	}
	slices.SortFunc(points, func(a, b point) int { return int(a.size - b.size) })
	return points
}

// The plot's frame, in its own units.
const (
	left, right, top, bottom = 70.0, 470.0, 30.0, 390.0
	plotWidth, plotHeight    = 760, 440
)

// plot draws costs by the number of origins as SVG, on logarithmic scales. Our lines are solid, the Python
// scheduler's dashed.
func (m *measurements) plot() []byte {
	type line struct {
		title, colour, dash string
		points              []point
	}
	var lines []line
	sizes, costs := [2]float64{math.Inf(1), 0}, [2]float64{math.Inf(1), 0}
	widen := func(span *[2]float64, v float64) { span[0], span[1] = min(span[0], v), max(span[1], v) }
	for _, c := range curves {
		for _, s := range []struct{ side, name, dash string }{{bench.Ours, "ours", ""}, {bench.Peer, "Python", ` stroke-dasharray="6 4"`}} {
			points := m.curve(c.part, c.unit, s.side)
			for _, p := range points {
				widen(&sizes, p.size)
				widen(&costs, p.ms)
			}
			if len(points) > 0 {
				lines = append(lines, line{c.title + ", " + s.name, c.colour, s.dash, points})
			}
		}
	}
	// Whole powers of ten.
	costs[0], costs[1] = math.Pow(10, math.Floor(math.Log10(costs[0]))), math.Pow(10, math.Ceil(math.Log10(costs[1])))
	place := func(v float64, span [2]float64, from, to float64) float64 {
		if span[0] >= span[1] {
			return (from + to) / 2
		}
		return from + (to-from)*math.Log(v/span[0])/math.Log(span[1]/span[0])
	}
	x := func(size float64) float64 { return place(size, sizes, left, right) }
	y := func(ms float64) float64 { return place(ms, costs, bottom, top) }

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%g" y="18">milliseconds, by the number of origins</text>`+"\n", left)
	for ms := costs[0]; ms <= costs[1]*1.01; ms *= 10 {
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y(ms), right, left-6, y(ms)+4, number(ms))
	}
	seen := map[float64]bool{}
	for i, l := range lines {
		var path strings.Builder
		for j, p := range l.points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], x(p.size), y(p.ms))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill=%q/>`+"\n", x(p.size), y(p.ms), l.colour)
			if !seen[p.size] {
				seen[p.size] = true
				fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x(p.size), bottom+18, pytext.Thousands(int(p.size)))
			}
		}
		row := top + 10 + 20*float64(i)
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke-width="2" stroke=%q%s/>`+"\n", &path, l.colour, l.dash)
		fmt.Fprintf(&b, `<path d="M%g %gh30" stroke-width="2" stroke=%q%s/><text x="%g" y="%g">%s</text>`+"\n",
			right+15, row, l.colour, l.dash, right+50, row+4, l.title)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
