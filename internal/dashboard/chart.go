package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/lanes"
)

// Templates draw charts as SVG without scripts, from these structs. All marks are in a square of 100, which a template
// stretches; labels are beside it and keep their size. Charts are readable without colours: failures are below the axis,
// and lines have different dashes. Each chart has a sentence and a table with the same content.

// chart is a chart over time, or a histogram.
type chart struct {
	Title, Text string // heading, and a sentence with the chart's content
	Marks       []mark
	Axis        float64 // height of the axis; 0: only the lower edge
	Labels      []chartLabel
	Keys        []chartKey
	Head        []string // of the table
	Rows        [][]string
}

// mark is an area or a line: the path of an SVG.
type mark struct{ Class, Path string }

// chartLabel is a text at a position of an edge, in per cent.
type chartLabel struct {
	X    float64
	Text string
}

// chartKey explains the marks of a class.
type chartKey struct{ Class, Text string }

// Empty reports whether there is nothing to draw.
func (c chart) Empty() bool { return len(c.Marks) == 0 }

// steps are moments at equal distances. The last step is in progress.
type steps struct {
	Since time.Time
	Step  time.Duration
}

func (s steps) at(i int) time.Time { return s.Since.Add(time.Duration(i) * s.Step) }

// text formats the beginning of a step, in UTC.
func (s steps) text(i int) string {
	switch {
	case s.Step < 2*time.Hour:
		return s.at(i).UTC().Format("15:04")
	case s.Step < 10*24*time.Hour:
		return s.at(i).UTC().Format("01-02 15:04")
	}
	return s.at(i).UTC().Format(time.DateOnly)
}

// labels returns labels for the first step, the middle one, and the last.
func (s steps) labels(n int) []chartLabel {
	if n < 3 {
		return nil
	}
	return []chartLabel{{0, s.text(0)}, {50, s.text(n / 2)}, {100, s.text(n - 1)}}
}

// each returns the length of a step, such as "5 min".
func (s steps) each() string {
	if days := s.Step / (24 * time.Hour); days > 1 {
		return fmt.Sprintf("%d days", days)
	} else if s.Step >= time.Hour {
		return fmt.Sprintf("%d h", s.Step/time.Hour)
	}
	return fmt.Sprintf("%d min", s.Step/time.Minute)
}

// split is the part of a band's height above its axis.
const split = 70

// band draws the ended work of each step above an axis, and its failures below. Each half has its own scale.
func band(title string, s steps, ended, failed []int64) chart {
	c := spark(s, ended, failed)
	c.Title, c.Head, c.Labels = title, []string{"From (UTC)", "Ended", "Failed"}, s.labels(len(ended))
	c.Keys = []chartKey{{"ended", "ended"}, {"failed", "failed, below"}}
	if c.Empty() {
		return c
	}
	for i := range ended {
		c.Rows = append(c.Rows, []string{s.text(i), strconv.FormatInt(ended[i], 10), strconv.FormatInt(failed[i], 10)})
	}
	return c
}

// spark draws the marks of a band, for a cell of a table.
func spark(s steps, ended, failed []int64) chart {
	c := chart{Axis: split}
	most, mostFailed := peak(ended), peak(failed)
	if most == 0 && mostFailed == 0 {
		c.Text = "Nothing ended."
		return c
	}
	c.Text = fmt.Sprintf("%s ended, at most %s in %s.", grouped(strconv.FormatInt(sum(ended), 10)), grouped(strconv.FormatInt(most, 10)), s.each())
	if n := sum(failed); n > 0 {
		at := slices.Index(failed, mostFailed)
		c.Text += fmt.Sprintf(" %s of them failed, at most %s, from %s on.", grouped(strconv.FormatInt(n, 10)), grouped(strconv.FormatInt(mostFailed, 10)), s.text(at))
	} else {
		c.Text += " None failed."
	}
	c.mark("ended", bars(ended, most, split, -split))
	c.mark("failed", bars(failed, mostFailed, split, 100-split))
	return c
}

// mark adds a mark, unless it has no path.
func (c *chart) mark(class, path string) {
	if path != "" {
		c.Marks = append(c.Marks, mark{class, path})
	}
}

// bars returns the path of bars on an axis. The greatest value has the given height; a negative height is upwards. Every
// value except 0 is visible.
func bars(values []int64, most int64, axis, height float64) string {
	if most == 0 {
		return ""
	}
	var path strings.Builder
	width := 100 / float64(len(values))
	for i := 0; i < len(values); i++ {
		if values[i] == 0 {
			continue
		}
		// One area for neighbours makes the path shorter.
		fmt.Fprintf(&path, "M%s %s", short(float64(i)*width), short(axis))
		for ; i < len(values) && values[i] > 0; i++ {
			h := height * float64(values[i]) / float64(most)
			h = math.Copysign(max(math.Abs(h), 4), height)
			fmt.Fprintf(&path, "V%sH%s", short(axis+h), short(float64(i+1)*width))
		}
		fmt.Fprintf(&path, "V%sZ", short(axis))
	}
	return path.String()
}

// short formats a coordinate in a few characters.
func short(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// curve is a line in a chart of times: seconds by step. NaN is unknown.
type curve struct {
	Class, Name string
	Seconds     []float64
}

// times draws seconds by step on a logarithmic scale between two powers of ten.
func times(title string, s steps, curves ...curve) chart {
	c := chart{Title: title, Head: []string{"From (UTC)"}}
	least, most, known, n := math.Inf(1), 0., 0, 0
	for _, v := range curves {
		n = len(v.Seconds)
		c.Head = append(c.Head, v.Name)
		for _, sec := range v.Seconds {
			if !math.IsNaN(sec) {
				least, most, known = min(least, max(sec, 0.1)), max(most, sec, 0.1), known+1
			}
		}
	}
	if known == 0 {
		c.Text = "No times are known."
		return c
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most)-1e-9)
	high = max(high, low+1)
	c.Labels = s.labels(n)
	var said []string
	width := 100 / float64(n)
	for _, v := range curves {
		var path strings.Builder
		down, last, greatest := false, math.NaN(), 0.
		for i, sec := range v.Seconds {
			if math.IsNaN(sec) {
				down = false
				continue
			}
			y := 100 * (1 - (math.Log10(max(sec, 0.1))-low)/(high-low))
			word := "L"
			if !down {
				word = "M"
			}
			fmt.Fprintf(&path, "%s%s %sh%s", word, short(float64(i)*width), short(y), short(width))
			down, last, greatest = true, sec, max(greatest, sec)
		}
		c.mark(v.Class, path.String())
		c.Keys = append(c.Keys, chartKey{v.Class, v.Name})
		if !math.IsNaN(last) {
			said = append(said, fmt.Sprintf("%s: %s at the end, %s at most", v.Name, seconds(last), seconds(greatest)))
		}
	}
	c.Text = strings.Join(said, "; ") + ". The scale goes from " + seconds(math.Pow(10, low)) + " to " + seconds(math.Pow(10, high)) + ", by powers of ten."
	for i := range n {
		row := []string{s.text(i)}
		for _, v := range curves {
			if math.IsNaN(v.Seconds[i]) {
				row = append(row, "")
			} else {
				row = append(row, seconds(v.Seconds[i]))
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// histogram draws a distribution of durations.
func histogram(title string, sketch lanes.Sketch) chart {
	c := chart{Title: title, Head: []string{"Up to", "Number"}}
	if sketch.Weight() == 0 {
		c.Text = "No times are known."
		return c
	}
	first, last := int16(math.MaxInt16), int16(0)
	for b, weight := range sketch {
		if weight > 0 {
			first, last = min(first, b), max(last, b)
		}
	}
	values := make([]int64, last-first+1)
	for i := range values {
		values[i] = int64(sketch[first+int16(i)])
		if values[i] > 0 {
			c.Rows = append(c.Rows, []string{seconds(lanes.BucketEnd(first + int16(i))), strconv.FormatInt(values[i], 10)})
		}
	}
	c.mark("ended", bars(values, peak(values), 100, -100))
	begin := 0.
	if first > 0 {
		begin = lanes.BucketEnd(first - 1)
	}
	c.Labels = []chartLabel{{0, seconds(begin)}, {100, seconds(lanes.BucketEnd(last))}}
	if len(values) > 4 {
		c.Labels = slices.Insert(c.Labels, 1, chartLabel{50, seconds(lanes.BucketEnd(first + (last-first)/2))})
	}
	c.Text = fmt.Sprintf("%s took from %s to %s, half of them %s at most, 95 %% %s at most. Each bar is for times up to a quarter longer than the one before.",
		grouped(strconv.FormatFloat(sketch.Weight(), 'f', 0, 64)), seconds(begin), seconds(lanes.BucketEnd(last)), seconds(sketch.Quantile(0.5)), seconds(sketch.Quantile(0.95)))
	return c
}

func peak(values []int64) int64 {
	most := int64(0)
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

func sum(values []int64) (all int64) {
	for _, v := range values {
		all += v
	}
	return all
}
