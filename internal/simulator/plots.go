package simulator

import (
	"fmt"
	"math"
	"strings"

	"github.com/guptarohit/asciigraph"
)

const (
	plotWidth, plotHeight = 80, 20
	textBins              = 10
)

// series are the plotted figures over time, in order.
var series = []struct {
	name string
	of   func(Measurement) int
}{
	{"Known origins", func(m Measurement) int { return m.Known }},
	{"Origins never visited", func(m Measurement) int { return m.NeverVisited }},
	{"Visits over time", func(m Measurement) int { return m.Visits }},
}

// Plots are the peer's two plots for a terminal: the run times of eventful visits,
// and how origins and visits developed.
func (r *Report) Plots(colored bool) string {
	return "Visit time histogram for eventful visits:\n" + r.histogramText() + "\nMetrics over time:\n" + r.seriesText(colored) + "\n" + r.sharesPlot(colored)
}

// sharesPlot plots the shares of up to as many groups as there are signs for.
func (r *Report) sharesPlot(colored bool) string {
	var lines []textLine
	for i, l := range r.sharesOverTime() {
		if i == len(signs) {
			break
		}
		values := make([]float64, len(l.Points))
		for n, p := range l.Points {
			values[n] = p.Y
		}
		lines = append(lines, textLine{l.Name, signs[i], lineColors[i%len(lineColors)], values})
	}
	if len(lines) == 0 {
		return ""
	}
	return "Shares of the workers' time, in per cent:\n" +
		r.plot(lines, colored, plotHeight/2, asciigraph.LowerBound(0), asciigraph.UpperBound(100)) + "\n"
}

// signs are what lines are drawn with, so that they can be told apart without
// colours.
var (
	signs      = []string{"+", "o", "*", "x", "#", "@", "%", "="}
	lineColors = []asciigraph.AnsiColor{asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Orange}
)

// textLine is a line of a plot in a terminal.
type textLine struct {
	name, sign string
	color      asciigraph.AnsiColor
	values     []float64 // evenly over the simulated time; at least one
}

// plot draws lines over the simulated hours.
func (r *Report) plot(lines []textLine, colored bool, height int, options ...asciigraph.Option) string {
	values, legend := make([][]float64, len(lines)), make([]string, len(lines))
	var chars []asciigraph.CharSet
	var colors []asciigraph.AnsiColor
	for i, l := range lines {
		if len(l.values) == 1 {
			l.values = append(l.values, l.values[0]) // a line has two ends
		}
		if !colored {
			l.color = asciigraph.Default
		}
		values[i], legend[i] = l.values, l.sign+" "+l.name
		chars, colors = append(chars, asciigraph.CreateCharSet(l.sign)), append(colors, l.color)
	}
	return asciigraph.PlotMany(values, append(options, asciigraph.Width(plotWidth), asciigraph.Height(height), asciigraph.Precision(0),
		asciigraph.XAxisRange(0, r.Simulated.Hours()), asciigraph.XAxisTickCount(5),
		asciigraph.SeriesColors(colors...), asciigraph.SeriesChars(chars...),
		asciigraph.Caption("by simulated hours: "+strings.Join(legend, ", ")))...)
}

// bin counts the visits whose run time, in seconds, is from Low on and below High.
type bin struct {
	low, high float64
	count     int
}

// histogram counts the run times of eventful visits up to an hour, in n bins; none
// if there are none.
func (r *Report) histogram(n int) []bin {
	low, high := math.Inf(1), math.Inf(-1)
	for _, t := range r.Eventful {
		if t <= longRunTime {
			low, high = min(low, t), max(high, t)
		}
	}
	if low > high {
		return nil
	}
	if low == high {
		low, high = low-0.5, high+0.5
	}
	bins := make([]bin, n)
	width := (high - low) / float64(n)
	for i := range bins {
		bins[i].low, bins[i].high = low+float64(i)*width, low+float64(i+1)*width
	}
	for _, t := range r.Eventful {
		if t <= longRunTime {
			bins[min(int((t-low)/width), n-1)].count++
		}
	}
	return bins
}

func (r *Report) histogramText() string {
	most := 1
	bins := r.histogram(textBins)
	for _, b := range bins {
		most = max(most, b.count)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%21s | %s\n", "seconds", "visits")
	for _, b := range bins {
		bar := strings.Repeat("█", int(math.Ceil(float64(b.count)/float64(most)*plotWidth)))
		fmt.Fprintf(&text, "[%8.1f, %8.1f) | %s %d\n", b.low, b.high, bar, b.count)
	}
	return text.String()
}

func (r *Report) seriesText(colored bool) string {
	lines := make([]textLine, len(series))
	for i, s := range series {
		lines[i] = textLine{s.name, signs[i], lineColors[i], nil}
		for _, m := range r.Series {
			lines[i].values = append(lines[i].values, float64(s.of(m)))
		}
	}
	return r.plot(lines, colored, plotHeight)
}
