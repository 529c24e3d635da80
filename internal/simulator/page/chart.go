package page

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"swh-scheduler/internal/pytext"
)

// Chart is a plot in a page. Places are in its own units; y goes down.
type Chart struct {
	Title, XLabel  string
	Width, Height  int
	LabelX         string
	XTicks, YTicks []tick
	Lines          []curve
	Bars           []bar

	highX, highY float64 // at the far ends of the axes
}

type (
	// Line is a figure over another one.
	Line struct {
		Name   string
		Points []Point
	}
	// Point is a point of a Line.
	Point struct{ X, Y float64 }
	// Bin is what a bar of a histogram stands for.
	Bin struct {
		Low, High float64
		Count     int
		Text      string // shown under the pointer
	}

	curve struct{ Name, Color, Points string } // x,y x,y …
	tick  struct{ X, Y, X2, Text string }
	bar   struct{ X, Y, Width, Height, Text string }
)

// colors are those of lines, in their order.
var colors = []string{"#2166ac", "#b2182b", "#1b7837", "#b35806", "#762a83", "#01665e", "#8c510a", "#c51b7d"}

// The size of charts, in units of their own.
const ChartWidth, ChartHeight = 900, 300

const (
	marginLeft, marginRight, marginTop, marginBottom         = 80, 20, 10, 45
	chartTicks                                               = 5
	barGap                                           float64 = 2
)

func (c *Chart) x(v float64) float64 {
	return marginLeft + v/c.highX*(ChartWidth-marginLeft-marginRight)
}

func (c *Chart) y(v float64) float64 {
	return ChartHeight - marginBottom - v/c.highY*(ChartHeight-marginTop-marginBottom)
}

// place writes a place with a tenth of a unit.
func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// write writes the picture with its title and legend.
func (c Chart) write(b *strings.Builder) {
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
func newChart(title, xLabel string, highX, highY float64) Chart {
	stepX, stepY := roundStep(highX/chartTicks), roundStep(highY/chartTicks)
	stepsY := int(math.Ceil(highY / stepY))
	c := Chart{Title: title, XLabel: xLabel, Width: ChartWidth, Height: ChartHeight, highX: highX, highY: stepY * float64(stepsY)}
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

// LineChart makes a chart of some lines, whose figures are not below 0.
func LineChart(title, xLabel string, lines []Line) Chart {
	highX, highY := 1e-3, 1.0
	for _, l := range lines {
		for _, p := range l.Points {
			highX, highY = max(highX, p.X), max(highY, p.Y)
		}
	}
	c := newChart(title, xLabel, highX, highY)
	for i, l := range lines {
		drawn := curve{Name: l.Name, Color: colors[i%len(colors)]}
		for j, p := range l.Points {
			if j > 0 {
				drawn.Points += " "
			}
			drawn.Points += place(c.x(p.X)) + "," + place(c.y(p.Y))
		}
		c.Lines = append(c.Lines, drawn)
	}
	return c
}

// BarChart makes a chart of a histogram.
func BarChart(title, xLabel string, bins []Bin) Chart {
	highX, most := 1.0, 1
	for _, b := range bins {
		highX, most = b.High, max(most, b.Count)
	}
	c := newChart(title, xLabel, highX, float64(most))
	for _, b := range bins {
		left, top := c.x(b.Low), c.y(float64(b.Count))
		c.Bars = append(c.Bars, bar{
			X: place(left + barGap/2), Y: place(top), Width: place(max(1, c.x(b.High)-left-barGap)), Height: place(c.y(0) - top),
			Text: b.Text,
		})
	}
	return c
}
