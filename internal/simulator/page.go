package simulator

import (
	"fmt"
	"io"
	"time"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/page"
)

// pageBins is how many bars a histogram has in a page.
const pageBins = 40

// WriteHTML writes the report as a page.
func (r *Report) WriteHTML(w io.Writer, settings []page.Row) error {
	return page.Page{
		Title: "Simulation of " + pytext.Timedelta(r.Simulated.Round(time.Second)),
		Intro: "From " + r.Series[0].At.Format(time.RFC1123) + " on.",
		Figures: []page.Row{
			{Name: "Total visits", Value: pytext.Thousands(r.Visits)}, {Name: "Eventful visits", Value: pytext.Thousands(len(r.Eventful))},
			{Name: "Uneventful visits", Value: pytext.Thousands(r.Uneventful)}, {Name: "Partial visits (given up)", Value: pytext.Thousands(r.Partial)},
			{Name: "Very long running tasks", Value: pytext.Thousands(r.VeryLong())},
		},
		Settings: settings,
		Charts:   r.charts(),
	}.Write(w)
}

func (r *Report) charts() []page.Chart {
	var over []page.Line
	for _, s := range series {
		over = append(over, r.line(s.name, s.of))
	}
	changes := r.line("Origins with pending changes", func(m Measurement) int { return m.PendingChanges })
	charts := []page.Chart{
		page.LineChart("Origins and visits over time", "simulated hours", over),
		page.LineChart("Origins that changed after their last successful visit", "simulated hours", []page.Line{changes}),
		page.BarChart("Run times of eventful visits of up to an hour", "seconds", r.bars()),
	}
	if shares := r.sharesOverTime(); len(shares) > 0 {
		charts = append(charts, page.LineChart("Shares of the workers' time, in per cent, hour by hour", "simulated hours", shares))
	}
	return charts
}

func (r *Report) bars() []page.Bin {
	var bars []page.Bin
	for _, b := range r.histogram(pageBins) {
		bars = append(bars, page.Bin{Low: b.low, High: b.high, Count: b.count, Text: fmt.Sprintf("%.0f to %.0f seconds: %d visits", b.low, b.high, b.count)})
	}
	return bars
}

// line is a figure over simulated hours.
func (r *Report) line(name string, of func(Measurement) int) page.Line {
	l := page.Line{Name: name}
	for _, m := range r.Series {
		l.Points = append(l.Points, page.Point{X: m.At.Sub(r.Series[0].At).Hours(), Y: float64(of(m))})
	}
	return l
}
