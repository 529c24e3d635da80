package simulator

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/pytext"
)

//go:embed page.css
var pageStyle string

// Setting is something that a simulation was told, for people.
type Setting struct{ Name, Value string }

// WriteHTML writes the report as a page that needs nothing else: no network, no
// script. It uses no template, for which the linker would have to keep every method
// of the program, a fifth of it.
func (r *Report) WriteHTML(w io.Writer, settings []Setting) error {
	var b strings.Builder
	title := html.EscapeString("Simulation of " + pytext.Timedelta(r.Simulated.Round(time.Second)))
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<h1>%[1]s</h1>
<p>From %[3]s on.</p>
<div class="tables">
`, title, pageStyle, html.EscapeString(r.Series[0].At.Format(time.RFC1123)))
	writeTable(&b, ` class="figure"`, []Setting{
		{"Total visits", pytext.Thousands(r.Visits)}, {"Eventful visits", pytext.Thousands(len(r.Eventful))},
		{"Uneventful visits", pytext.Thousands(r.Uneventful)}, {"Partial visits (given up)", pytext.Thousands(r.Partial)},
		{"Very long running tasks", pytext.Thousands(r.VeryLong())},
	})
	writeTable(&b, "", settings)
	b.WriteString("</div>\n")
	for _, c := range r.charts() {
		c.write(&b)
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes rows, whose values have an attribute.
func writeTable(b *strings.Builder, attribute string, rows []Setting) {
	b.WriteString("<table>\n")
	for _, row := range rows {
		fmt.Fprintf(b, "<tr><td>%s</td><td%s>%s</td></tr>\n", html.EscapeString(row.Name), attribute, html.EscapeString(row.Value))
	}
	b.WriteString("</table>\n")
}

func (r *Report) charts() []chart {
	var over []line
	for i, s := range series {
		over = append(over, r.line(s.name, webColors[i], s.of))
	}
	changes := r.line("Origins with pending changes", webColors[3], func(m Measurement) int { return m.PendingChanges })
	charts := []chart{
		newLineChart("Origins and visits over time", "simulated hours", over),
		newLineChart("Origins that changed after their last successful visit", "simulated hours", []line{changes}),
		newBarChart("Run times of eventful visits of up to an hour", "seconds", r.histogram(pageBins)),
	}
	if shares := r.sharesOverTime(); len(shares) > 0 {
		charts = append(charts, newLineChart("Shares of the workers' time, in per cent, hour by hour", "simulated hours", shares))
	}
	return charts
}

// webColors are the colours of lines.
var webColors = []string{"#2166ac", "#b2182b", "#1b7837", "#b35806", "#762a83", "#01665e", "#8c510a", "#c51b7d"}

// line is a figure over simulated hours.
func (r *Report) line(name, color string, of func(Measurement) int) line {
	l := line{Name: name, Color: color}
	for _, m := range r.Series {
		l.points = append(l.points, point{m.At.Sub(r.Series[0].At).Hours(), float64(of(m))})
	}
	return l
}

// chart is a plot in a page. Places are in its own units; y goes down.
type chart struct {
	Title, XLabel  string
	Width, Height  int
	LabelX         string
	XTicks, YTicks []tick
	Lines          []line
	Bars           []bar

	highX, highY float64 // at the far ends of the axes
}

type (
	point struct{ x, y float64 }
	line  struct {
		Name, Color string
		Points      string // x,y x,y …
		points      []point
	}
	tick struct{ X, Y, X2, Text string }
	bar  struct{ X, Y, Width, Height, Text string }
)

const (
	pageBins = 40

	chartWidth, chartHeight                                  = 900, 300
	marginLeft, marginRight, marginTop, marginBottom         = 80, 20, 10, 45
	chartTicks                                               = 5
	barGap                                           float64 = 2
)

func (c *chart) x(v float64) float64 {
	return marginLeft + v/c.highX*(chartWidth-marginLeft-marginRight)
}

func (c *chart) y(v float64) float64 {
	return chartHeight - marginBottom - v/c.highY*(chartHeight-marginTop-marginBottom)
}

// place writes a place with a tenth of a unit.
func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// write writes the picture with its title and legend.
func (c chart) write(b *strings.Builder) {
	fmt.Fprintf(b, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%[1]s\">\n", html.EscapeString(c.Title), c.Width, c.Height)
	for _, t := range c.YTicks {
		fmt.Fprintf(b, `<line class="grid" x1="%s" y1="%s" x2="%s" y2="%[2]s"/><text x="%[1]s" y="%[2]s" dx="-8" dy="4" text-anchor="end">%[4]s</text>`+"\n",
			t.X, t.Y, t.X2, html.EscapeString(t.Text))
	}
	for _, t := range c.XTicks {
		fmt.Fprintf(b, `<text x="%s" y="%s" dy="18" text-anchor="middle">%s</text>`+"\n", t.X, t.Y, html.EscapeString(t.Text))
	}
	fmt.Fprintf(b, `<text x="%s" y="%d" dy="-4" text-anchor="middle">%s</text>`+"\n", c.LabelX, c.Height, html.EscapeString(c.XLabel))
	for _, r := range c.Bars {
		fmt.Fprintf(b, `<rect class="bar" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n", r.X, r.Y, r.Width, r.Height, html.EscapeString(r.Text))
	}
	var legend strings.Builder
	for _, l := range c.Lines {
		name := html.EscapeString(l.Name)
		fmt.Fprintf(b, `<polyline class="line" stroke="%s" points="%s"><title>%s</title></polyline>`+"\n", l.Color, l.Points, name)
		fmt.Fprintf(&legend, `<span><i style="background: %s"></i>%s</span>`, l.Color, name)
	}
	b.WriteString("</svg>\n")
	if legend.Len() > 0 {
		fmt.Fprintf(b, "<p class=\"legend\">%s</p>\n", legend.String())
	}
}

// newChart makes a chart without contents, whose axes go from 0 up to highX and to
// a round number from highY on.
func newChart(title, xLabel string, highX, highY float64) chart {
	stepX, stepY := roundStep(highX/chartTicks), roundStep(highY/chartTicks)
	stepsY := int(math.Ceil(highY / stepY))
	c := chart{Title: title, XLabel: xLabel, Width: chartWidth, Height: chartHeight, highX: highX, highY: stepY * float64(stepsY)}
	c.LabelX = place(c.x(highX / 2))
	for v := 0.0; v <= highX; v += stepX {
		c.XTicks = append(c.XTicks, tick{X: place(c.x(v)), Y: place(c.y(0)), Text: figure(v)})
	}
	for i := range stepsY + 1 {
		v := float64(i) * stepY
		c.YTicks = append(c.YTicks, tick{X: place(c.x(0)), X2: place(c.x(highX)), Y: place(c.y(v)), Text: figure(v)})
	}
	return c
}

// roundStep is the least of 1, 2 or 5 times a power of ten that is as large.
func roundStep(least float64) float64 {
	step := 1.0
	for step/10 >= least && step > 1e-6 {
		step /= 10
	}
	for {
		for _, times := range []float64{1, 2, 5} {
			if step*times >= least {
				return step * times
			}
		}
		step *= 10
	}
}

func figure(v float64) string {
	if v == float64(int(v)) {
		return pytext.Thousands(int(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func newLineChart(title, xLabel string, lines []line) chart {
	highX, highY := 1e-3, 1.0
	for _, l := range lines {
		for _, p := range l.points {
			highX, highY = max(highX, p.x), max(highY, p.y)
		}
	}
	c := newChart(title, xLabel, highX, highY)
	for _, l := range lines {
		for i, p := range l.points {
			if i > 0 {
				l.Points += " "
			}
			l.Points += place(c.x(p.x)) + "," + place(c.y(p.y))
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func newBarChart(title, xLabel string, bins []bin) chart {
	highX, most := 1.0, 1
	for _, b := range bins {
		highX, most = b.high, max(most, b.count)
	}
	c := newChart(title, xLabel, highX, float64(most))
	for _, b := range bins {
		left, top := c.x(b.low), c.y(float64(b.count))
		c.Bars = append(c.Bars, bar{
			X: place(left + barGap/2), Y: place(top), Width: place(max(1, c.x(b.high)-left-barGap)), Height: place(c.y(0) - top),
			Text: fmt.Sprintf("%.0f to %.0f seconds: %d visits", b.low, b.high, b.count),
		})
	}
	return c
}
