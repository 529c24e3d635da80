package page

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"swh-scheduler/internal/pytext"
)

// Chart is a plot on a page.
type Chart struct {
	title, marks, legend string
	highX, highY         float64 // the values at the ends of the axes
}

type (
	// Line is a graph of a function.
	Line struct {
		Name   string
		Points []Point
	}
	Point struct{ X, Y float64 }
	// Bin is a bar of a histogram.
	Bin struct {
		Low, High float64
		Count     int
	}
)

// colors are the colors of lines, in this order.
var colors = []string{"#2166ac", "#b2182b", "#1b7837", "#b35806", "#762a83", "#01665e", "#8c510a", "#c51b7d"}

// The size of charts, in units of the SVG.
const ChartWidth, ChartHeight = 900, 300

const (
	marginLeft, marginRight, marginTop, marginBottom         = 80, 20, 10, 45
	chartTicks                                               = 5
	barGap                                           float64 = 2
)

// x returns the horizontal position of a value.
func (c *Chart) x(v float64) float64 {
	return marginLeft + v/c.highX*(ChartWidth-marginLeft-marginRight)
}

// y returns the vertical position of a value, which grows downwards.
func (c *Chart) y(v float64) float64 {
	return ChartHeight - marginBottom - v/c.highY*(ChartHeight-marginTop-marginBottom)
}

// add adds marks to the picture.
func (c *Chart) add(format string, args ...any) { c.marks += fmt.Sprintf(format, args...) }

// write writes the picture with its title and legend.
func (c Chart) write(b *strings.Builder) {
	fmt.Fprintf(b, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%[1]s\">\n%[4]s</svg>\n",
		html.EscapeString(c.title), ChartWidth, ChartHeight, c.marks)
	if c.legend != "" {
		fmt.Fprintf(b, "<p class=\"legend\">%s</p>\n", c.legend)
	}
}

// newChart returns a chart with axes from 0 to highX, and from 0 to the next round number from highY on.
func newChart(title, xLabel string, highX, highY float64) Chart {
	stepX, stepY := roundStep(highX/chartTicks), roundStep(highY/chartTicks)
	stepsY := int(math.Ceil(highY / stepY))
	c := Chart{title: title, highX: highX, highY: stepY * float64(stepsY)}
	for i := range stepsY + 1 {
		v := float64(i) * stepY
		c.add(`<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f"/><text x="%.1[1]f" y="%.1[2]f" dx="-8" dy="4" text-anchor="end">%[4]s</text>`+"\n",
			c.x(0), c.y(v), c.x(highX), figure(v))
	}
	for v := 0.0; v <= highX; v += stepX {
		c.add(`<text x="%.1f" y="%.1f" dy="18" text-anchor="middle">%s</text>`+"\n", c.x(v), c.y(0), figure(v))
	}
	c.add(`<text x="%.1f" y="%d" dy="-4" text-anchor="middle">%s</text>`+"\n", c.x(highX/2), ChartHeight, html.EscapeString(xLabel))
	return c
}

// roundStep returns the smallest number from least on that is 1, 2 or 5 times a power of ten.
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

// LineChart returns a chart of lines with values from 0 on.
func LineChart(title, xLabel string, lines []Line) Chart {
	highX, highY := 1e-3, 1.0
	for _, l := range lines {
		for _, p := range l.Points {
			highX, highY = max(highX, p.X), max(highY, p.Y)
		}
	}
	c := newChart(title, xLabel, highX, highY)
	for i, l := range lines {
		points := make([]string, len(l.Points))
		for j, p := range l.Points {
			points[j] = fmt.Sprintf("%.1f,%.1f", c.x(p.X), c.y(p.Y))
		}
		color, name := colors[i%len(colors)], html.EscapeString(l.Name)
		c.add(`<polyline class="line" stroke="%s" points="%s"><title>%s</title></polyline>`+"\n", color, strings.Join(points, " "), name)
		c.legend += fmt.Sprintf(`<span><i style="background: %s"></i>%s</span>`, color, name)
	}
	return c
}

// BarChart returns a chart of a histogram that counts what, such as "visits".
func BarChart(title, xLabel, what string, bins []Bin) Chart {
	highX, most := 1.0, 1
	for _, b := range bins {
		highX, most = b.High, max(most, b.Count)
	}
	c := newChart(title, xLabel, highX, float64(most))
	for _, b := range bins {
		left, top := c.x(b.Low), c.y(float64(b.Count))
		c.add(`<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%.0f to %.0f %s: %d %s</title></rect>`+"\n",
			left+barGap/2, top, max(1, c.x(b.High)-left-barGap), c.y(0)-top, b.Low, b.High, html.EscapeString(xLabel), b.Count, html.EscapeString(what))
	}
	return c
}
