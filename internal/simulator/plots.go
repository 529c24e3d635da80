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
	name  string
	of    func(Measurement) int
	char  string
	color asciigraph.AnsiColor
	web   string // the same colour in a page
}{
	{"Known origins", func(m Measurement) int { return m.Known }, "+", asciigraph.Blue, "#2166ac"},
	{"Origins never visited", func(m Measurement) int { return m.NeverVisited }, "o", asciigraph.Red, "#b2182b"},
	{"Visits over time", func(m Measurement) int { return m.Visits }, "*", asciigraph.Green, "#1b7837"},
}

// Plots are the peer's two plots for a terminal: the run times of eventful visits,
// and how origins and visits developed.
func (r *Report) Plots(colored bool) string {
	return "Visit time histogram for eventful visits:\n" + r.histogramText() + "\nMetrics over time:\n" + r.seriesText(colored) + "\n"
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
	lines, legend := make([][]float64, len(series)), make([]string, len(series))
	var colors []asciigraph.AnsiColor
	var chars []asciigraph.CharSet
	for i, s := range series {
		legend[i] = s.char + " " + s.name
		chars = append(chars, asciigraph.CreateCharSet(s.char))
		for _, m := range r.Series {
			lines[i] = append(lines[i], float64(s.of(m)))
		}
		if len(lines[i]) == 1 {
			lines[i] = append(lines[i], lines[i][0]) // a line has two ends
		}
		if colored {
			colors = append(colors, s.color)
		} else {
			colors = append(colors, asciigraph.Default)
		}
	}
	return asciigraph.PlotMany(lines, asciigraph.Width(plotWidth), asciigraph.Height(plotHeight), asciigraph.Precision(0),
		asciigraph.XAxisRange(0, r.Simulated.Hours()), asciigraph.XAxisTickCount(5),
		asciigraph.SeriesColors(colors...), asciigraph.SeriesChars(chars...),
		asciigraph.Caption("by simulated hours: "+strings.Join(legend, ", ")))
}
