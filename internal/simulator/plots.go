package simulator

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/page"
)

const (
	plotWidth, plotHeight = 80, 20
	textBins              = 10
)

// series are the plotted figures over time.
var series = []struct {
	name string
	of   func(Measurement) int
}{
	{"Known origins", func(m Measurement) int { return m.Known }},
	{"Origins never visited", func(m Measurement) int { return m.NeverVisited }},
	{"Visits over time", func(m Measurement) int { return m.Visits }},
}

// Plots returns the Python scheduler's two plots for a terminal, the run times of eventful visits
// and the figures over time, and a plot of shares.
func (r *Report) Plots(colored bool) string {
	return "Visit time histogram for eventful visits:\n" + r.histogramText() + "\nMetrics over time:\n" + r.plot(r.overTime(), colored, plotHeight) + "\n" + r.sharesPlot(colored)
}

// sharesPlot plots the shares of at most as many groups as there are signs.
func (r *Report) sharesPlot(colored bool) string {
	lines := r.sharesOverTime()
	if len(lines) == 0 {
		return ""
	}
	return "Shares of the workers' time, in per cent:\n" +
		r.plot(lines[:min(len(lines), len(signs))], colored, plotHeight/2, asciigraph.LowerBound(0), asciigraph.UpperBound(100)) + "\n"
}

// signs are the characters of lines, which differ without colours.
var (
	signs      = []string{"+", "o", "*", "x", "#", "@", "%", "="}
	lineColors = []asciigraph.AnsiColor{asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Orange}
)

// plot plots lines. Each has at least one point; the points are spread evenly over the simulated time.
func (r *Report) plot(lines []page.Line, colored bool, height int, options ...asciigraph.Option) string {
	values, legend := make([][]float64, len(lines)), make([]string, len(lines))
	var chars []asciigraph.CharSet
	var colors []asciigraph.AnsiColor
	for i, l := range lines {
		for _, p := range l.Points {
			values[i] = append(values[i], p.Y)
		}
		if len(values[i]) == 1 {
			values[i] = append(values[i], values[i][0]) // a line needs two ends
		}
		color := asciigraph.Default
		if colored {
			color = lineColors[i%len(lineColors)]
		}
		legend[i] = signs[i] + " " + l.Name
		chars, colors = append(chars, asciigraph.CreateCharSet(signs[i])), append(colors, color)
	}
	return asciigraph.PlotMany(values, append(options, asciigraph.Width(plotWidth), asciigraph.Height(height), asciigraph.Precision(0),
		asciigraph.XAxisRange(0, r.Simulated.Hours()), asciigraph.XAxisTickCount(5),
		asciigraph.SeriesColors(colors...), asciigraph.SeriesChars(chars...),
		asciigraph.Caption("by simulated hours: "+strings.Join(legend, ", ")))...)
}

// histogram counts the run times of eventful visits of up to an hour in n bins. It returns nil if there are no such visits.
func (r *Report) histogram(n int) []page.Bin {
	times := slices.DeleteFunc(slices.Clone(r.Eventful), func(t float64) bool { return t > longRunTime })
	if len(times) == 0 {
		return nil
	}
	low, high := slices.Min(times), slices.Max(times)
	if low == high {
		low, high = low-0.5, high+0.5
	}
	bins := make([]page.Bin, n)
	width := (high - low) / float64(n)
	for i := range bins {
		bins[i].Low, bins[i].High = low+float64(i)*width, low+float64(i+1)*width
	}
	for _, t := range times {
		bins[min(int((t-low)/width), n-1)].Count++
	}
	return bins
}

func (r *Report) histogramText() string {
	most := 1
	bins := r.histogram(textBins)
	for _, b := range bins {
		most = max(most, b.Count)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%21s | %s\n", "seconds", "visits")
	for _, b := range bins {
		bar := strings.Repeat("█", int(math.Ceil(float64(b.Count)/float64(most)*plotWidth)))
		fmt.Fprintf(&text, "[%8.1f, %8.1f) | %s %d\n", b.Low, b.High, bar, b.Count)
	}
	return text.String()
}

func (r *Report) WriteHTML(w io.Writer, settings []page.Row) error {
	figures := []page.Row{
		{Name: "Total visits", Value: pytext.Thousands(r.Visits)}, {Name: "Eventful visits", Value: pytext.Thousands(len(r.Eventful))},
		{Name: "Uneventful visits", Value: pytext.Thousands(r.Uneventful)}, {Name: "Partial visits (given up)", Value: pytext.Thousands(r.Partial)},
		{Name: "Very long running tasks", Value: pytext.Thousands(r.VeryLong())},
	}
	if r.Forks > 0 {
		figures = append(figures, page.Row{Name: "Visits of forks", Value: fmt.Sprintf("%s (%s)", pytext.Thousands(r.Forks), r.forksPart())})
	}
	return page.Page{
		Title:    "Simulation of " + pytext.Timedelta(r.Simulated.Round(time.Second)),
		Intro:    "From " + r.Series[0].At.Format(time.RFC1123) + " on.",
		Figures:  figures,
		Settings: settings,
		Charts:   r.charts(),
	}.Write(w)
}

func (r *Report) charts() []page.Chart {
	changes := r.line("Origins with pending changes", func(m Measurement) int { return m.PendingChanges })
	charts := []page.Chart{
		page.LineChart("Origins and visits over time", "simulated hours", r.overTime()),
		page.LineChart("Origins that changed after their last successful visit", "simulated hours", []page.Line{changes}),
		page.BarChart("Run times of eventful visits of up to an hour", "seconds", "visits", r.histogram(40)),
	}
	if shares := r.sharesOverTime(); len(shares) > 0 {
		charts = append(charts, page.LineChart("Shares of the workers' time, in per cent, hour by hour", "simulated hours", shares))
	}
	return charts
}

func (r *Report) overTime() (lines []page.Line) {
	for _, s := range series {
		lines = append(lines, r.line(s.name, s.of))
	}
	return lines
}

func (r *Report) line(name string, of func(Measurement) int) page.Line {
	l := page.Line{Name: name}
	for _, m := range r.Series {
		l.Points = append(l.Points, page.Point{X: m.At.Sub(r.Series[0].At).Hours(), Y: float64(of(m))})
	}
	return l
}
