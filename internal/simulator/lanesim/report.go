package lanesim

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/page"
)

// Class is the jobs from the fraction Low to the fraction High of all jobs sorted by runtime.
type Class struct {
	Name      string
	Low, High float64
}

var Classes = []Class{
	{"shortest half", 0, 0.5}, {"next 40 %", 0.5, 0.9}, {"slowest tenth", 0.9, 1}, {"all", 0, 1},
}

// Waits are the waits of a class.
type Waits struct {
	Class
	Jobs        int
	Shortest    time.Duration // runtime
	Longest     time.Duration
	Median, P95 time.Duration // wait
}

// WaitsOf returns the waits of classes of jobs.
func WaitsOf(done []Done, classes []Class) []Waits {
	sorted := slices.Clone(done)
	slices.SortStableFunc(sorted, func(a, b Done) int { return cmp.Compare(a.Runtime, b.Runtime) })
	all := make([]Waits, len(classes))
	for i, c := range classes {
		part := sorted[int(c.Low*float64(len(sorted))):int(c.High*float64(len(sorted)))]
		all[i] = Waits{Class: c, Jobs: len(part)}
		if len(part) == 0 {
			continue
		}
		waits := make([]time.Duration, len(part))
		for j, d := range part {
			waits[j] = d.Wait
		}
		slices.Sort(waits)
		all[i].Shortest, all[i].Longest = part[0].Runtime, part[len(part)-1].Runtime
		all[i].Median, all[i].P95 = waits[len(waits)/2], waits[len(waits)*95/100]
	}
	return all
}

// Comparison has the results of the same jobs with lanes and without.
type Comparison struct {
	With, Without []Done
	Limits        []time.Duration
}

// Totals are the totals of work with lanes.
type Totals struct {
	Jobs            int
	Failed          int           // jobs that timed out in the last lane
	SlowSentExpress int           // jobs that timed out at the first attempt, in any lane but the last
	QuickSentSlow   int           // jobs whose runtime was below the limit of the lane before their first one
	Wasted          time.Duration // spent on attempts that timed out and were repeated
	Work            time.Duration // spent on the other attempts
}

func (c Comparison) Totals() Totals {
	t := Totals{Jobs: len(c.With)}
	for _, d := range c.With {
		t.Work += d.Runtime
		if d.Failed {
			t.Failed++
		}
		moves := d.TimedOut
		if d.Failed {
			moves--
		}
		if moves > 0 {
			t.SlowSentExpress++
		}
		if d.First > 0 && d.Runtime <= c.Limits[d.First-1] {
			t.QuickSentSlow++
		}
		for lane := d.First; moves > 0; moves-- {
			t.Wasted += c.Limits[lane]
			lane++
		}
	}
	return t
}

// pairs iterates over the waits of classes without lanes and with them.
func (c Comparison) pairs(classes []Class) iter.Seq2[Waits, Waits] {
	return func(yield func(without, with Waits) bool) {
		with := WaitsOf(c.With, classes)
		for i, without := range WaitsOf(c.Without, classes) {
			if !yield(without, with[i]) {
				return
			}
		}
	}
}

// Summary returns the comparison for JSON. Times are in seconds.
func (c Comparison) Summary() map[string]any {
	t := c.Totals()
	var classes []map[string]any
	for one, two := range c.pairs(Classes) {
		classes = append(classes, map[string]any{
			"jobs": one.Name, "shortest_runtime": one.Shortest.Seconds(), "longest_runtime": one.Longest.Seconds(),
			"median_wait": one.Median.Seconds(), "p95_wait": one.P95.Seconds(),
			"median_wait_with_lanes": two.Median.Seconds(), "p95_wait_with_lanes": two.P95.Seconds(),
		})
	}
	return map[string]any{
		"jobs": t.Jobs, "quick_sent_slow": t.QuickSentSlow, "slow_sent_express": t.SlowSentExpress, "failed": t.Failed,
		"work": t.Work.Seconds(), "work_done_twice": t.Wasted.Seconds(), "classes": classes,
	}
}

// Text formats the comparison for a terminal.
func (c Comparison) Text(plots, colored bool) string {
	var b strings.Builder
	t := c.Totals()
	fmt.Fprintf(&b, "Jobs: %d\nQuick sent slow: %d\nSlow sent express: %d\nFailed, over in the last lane: %d\nWork done twice: %.1f %%\n\n",
		t.Jobs, t.QuickSentSlow, t.SlowSentExpress, t.Failed, 100*t.Wasted.Seconds()/max(1, t.Work.Seconds()))
	lines := []string{"JOBS\tRUNTIMES>\tMEDIAN WAIT>\tWITH LANES>\tRATIO>\tP95 WAIT>\tWITH LANES>\tRATIO>"}
	for one, two := range c.pairs(Classes) {
		lines = append(lines, fmt.Sprintf("%s\t%s to %s\t%s\t%s\t%s\t%s\t%s\t%s", one.Name, short(one.Shortest), short(one.Longest),
			short(one.Median), short(two.Median), ratio(one.Median, two.Median), short(one.P95), short(two.P95), ratio(one.P95, two.P95)))
	}
	b.WriteString(pytext.Terminal{}.Columns(lines))
	if plots {
		b.WriteString("\n" + c.plot(colored) + "\n")
	}
	return b.String()
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		return d.Round(time.Minute).String()
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// ratio formats a / b.
func ratio(a, b time.Duration) string {
	switch {
	case a == b:
		return "1"
	case b <= 0:
		return "∞"
	}
	return strconv.FormatFloat(a.Seconds()/b.Seconds(), 'g', 3, 64)
}

// percentiles are the classes of plots and of the CSV file.
var percentiles = func() (classes []Class) {
	const parts = 20
	for i := range parts {
		classes = append(classes, Class{Low: float64(i) / parts, High: float64(i+1) / parts})
	}
	return classes
}()

// plot draws the 95th percentile of waits by percentile of runtime, on a logarithmic scale.
func (c Comparison) plot(colored bool) string {
	curve := func(done []Done) []float64 {
		var points []float64
		for _, w := range WaitsOf(done, percentiles) {
			points = append(points, math.Log10(1+w.P95.Seconds()))
		}
		return points
	}
	colors := []asciigraph.AnsiColor{asciigraph.Default, asciigraph.Default}
	if colored {
		colors = []asciigraph.AnsiColor{asciigraph.Red, asciigraph.Green}
	}
	return asciigraph.PlotMany([][]float64{curve(c.Without), curve(c.With)}, asciigraph.Width(80), asciigraph.Height(16), asciigraph.Precision(1),
		asciigraph.XAxisRange(0, 100), asciigraph.XAxisTickCount(5),
		asciigraph.SeriesColors(colors...), asciigraph.SeriesChars(asciigraph.CreateCharSet("*"), asciigraph.CreateCharSet("o")),
		asciigraph.Caption("p95 wait, log10 of 1 + seconds, by percentile of runtime, shortest first: * without lanes, o with"))
}

func (c Comparison) WriteHTML(w io.Writer, settings []page.Row) error {
	t := c.Totals()
	curves := func(of func(Waits) time.Duration) []page.Line {
		var lines []page.Line
		for _, side := range []struct {
			name string
			done []Done
		}{{"With lanes", c.With}, {"Without lanes", c.Without}} {
			l := page.Line{Name: side.name}
			for _, waits := range WaitsOf(side.done, percentiles) {
				l.Points = append(l.Points, page.Point{X: 100 * waits.High, Y: math.Log10(1 + of(waits).Seconds())})
			}
			lines = append(lines, l)
		}
		return lines
	}
	const percentile, scale = "percentile of the runtime, shortest first", ", as log10 of 1 + seconds"
	p := page.Page{
		Title: "Waits with lanes and without",
		Intro: "From the arrival of a piece of work to its end, minus its runtime.",
		Figures: []page.Row{
			{Name: "Jobs", Value: pytext.Thousands(t.Jobs)}, {Name: "Quick sent slow", Value: pytext.Thousands(t.QuickSentSlow)},
			{Name: "Slow sent express", Value: pytext.Thousands(t.SlowSentExpress)},
			{Name: "Failed, over in the last lane", Value: pytext.Thousands(t.Failed)},
			{Name: "Work done twice", Value: fmt.Sprintf("%.1f %%", 100*t.Wasted.Seconds()/max(1, t.Work.Seconds()))},
		},
		Settings: settings,
		Charts: []page.Chart{
			page.LineChart("Median wait by how long the work takes"+scale, percentile, curves(func(w Waits) time.Duration { return w.Median })),
			page.LineChart("95th percentile of the wait"+scale, percentile, curves(func(w Waits) time.Duration { return w.P95 })),
		},
	}
	for one, two := range c.pairs(Classes) {
		p.Figures = append(p.Figures, page.Row{
			Name:  fmt.Sprintf("%s (%s to %s): median, p95 of the wait", one.Name, short(one.Shortest), short(one.Longest)),
			Value: fmt.Sprintf("%s, %s; without %s, %s", short(two.Median), short(two.P95), short(one.Median), short(one.P95)),
		})
	}
	return p.Write(w)
}

// WriteCSV writes the waits, in seconds, of each twentieth of the jobs, the shortest jobs first.
func (c Comparison) WriteCSV(w io.Writer) error {
	file := csv.NewWriter(w)
	rows := [][]string{{"percentile", "longest_runtime", "jobs", "median_wait", "p95_wait", "median_wait_with_lanes", "p95_wait_with_lanes"}}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	for one, two := range c.pairs(percentiles) {
		rows = append(rows, []string{
			number(math.Round(100 * one.High)), number(one.Longest.Seconds()), strconv.Itoa(one.Jobs),
			number(one.Median.Seconds()), number(one.P95.Seconds()), number(two.Median.Seconds()), number(two.P95.Seconds()),
		})
	}
	return file.WriteAll(rows)
}
