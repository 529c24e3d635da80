package simulator

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/simulator/page"
	"swh-scheduler/internal/testenv/seed"
)

// someReport draws a report.
func someReport(t *rapid.T) *Report {
	r := &Report{Simulated: time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "simulated"))}
	for _, m := range rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 1_000_000), 5, 5), 1, 50).Draw(t, "series") {
		r.Series = append(r.Series, Measurement{
			At:     epoch.Add(time.Duration(len(r.Series)) * time.Hour),
			counts: counts{Known: m[0], Enabled: m[1], NeverVisited: m[2], PendingChanges: m[3]}, Visits: m[4],
			Worked: make(map[string]time.Duration),
		})
	}
	for group := range rapid.IntRange(0, 12).Draw(t, "groups") {
		worked := time.Duration(0)
		for _, m := range r.Series {
			worked += time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "worked"))
			m.Worked[fmt.Sprint("group <", group)] = worked
		}
	}
	r.Eventful = rapid.SliceOf(rapid.Float64Range(0.5, 7200)).Draw(t, "run times")
	r.Uneventful, r.Partial = rapid.IntRange(0, 1000).Draw(t, "uneventful"), rapid.IntRange(0, 1000).Draw(t, "partial")
	r.Visits = len(r.Eventful) + r.Uneventful + r.Partial
	return r
}

// numbers matches the numbers in an attribute of the page's pictures.
var numbers = regexp.MustCompile(`-?[0-9.]+(?:e[-+]?[0-9]+)?`)

// The page is well-formed, loads nothing from the network, escapes names from input, and draws everything within its
// pictures.
func TestPage(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		r := someReport(t)
		var text bytes.Buffer
		if err := r.WriteHTML(&text, []page.Row{{Name: "Policy", Value: "<script>alert(1)</script>"}}); err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?i)<script|<link|<img|url\(|src=|href=|https?:`).FindString(text.String()); found != "" {
			t.Errorf("the page has %q", found)
		}
		dec := xml.NewDecoder(&text)
		dec.Strict, dec.AutoClose, dec.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		places := 0
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			element, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			for _, a := range element.Attr {
				switch a.Name.Local {
				case "x", "y", "x1", "y1", "x2", "y2", "points":
					for _, n := range numbers.FindAllString(a.Value, -1) {
						places++
						if v, err := strconv.ParseFloat(n, 64); err != nil || v < 0 || v > page.ChartWidth {
							t.Errorf("%s of %s is %q", a.Name.Local, element.Name.Local, a.Value)
						}
					}
				case "height", "width":
					if v, err := strconv.ParseFloat(a.Value, 64); element.Name.Local == "rect" && (err != nil || v < 0 || v > page.ChartWidth) {
						t.Errorf("%s of %s is %q", a.Name.Local, element.Name.Local, a.Value)
					}
				}
			}
		}
		if least := 2 * len(r.Series) * (len(series) + 1); places < least {
			t.Errorf("%d places, want at least %d", places, least)
		}
	})
}

// The page has the number of visits of forks, if there were any, as the text has.
func TestPageCountsForks(t *testing.T) {
	t.Parallel()
	for forks, want := range map[int]string{0: "", 1013: `<tr><td>Visits of forks</td><td class="figure">1,013 (10.0 %)</td></tr>`} {
		r := &Report{Visits: 10103, Forks: forks, Series: []Measurement{{At: epoch}}}
		var text strings.Builder
		if err := r.WriteHTML(&text, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want) || strings.Contains(text.String(), "forks") != (want != "") {
			t.Errorf("of %d visits of forks the page says:\n%s", forks, text.String())
		}
	}
}

// The histogram counts each eventful visit of up to an hour once, in the bin of its run time.
func TestHistogram(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		r := someReport(t)
		n := rapid.IntRange(1, 50).Draw(t, "bins")
		bins := r.histogram(n)
		counted, short := 0, 0
		for i, b := range bins {
			counted += b.Count
			within := 0
			for _, runTime := range r.Eventful {
				const rounding = 1e-6
				if runTime <= longRunTime && runTime > b.Low-rounding && runTime < b.High+rounding {
					within++
				}
			}
			if b.Count > within || b.Low >= b.High || i > 0 && math.Abs(b.Low-bins[i-1].High) > 1e-6 {
				t.Errorf("bin %d is %+v of at most %d", i, b, within)
			}
		}
		for _, runTime := range r.Eventful {
			if runTime <= longRunTime {
				short++
			}
		}
		if counted != short || short > 0 && len(bins) != n {
			t.Errorf("%d visits in %d bins, want %d in %d", counted, len(bins), short, n)
		}
	})
}

// Plots in a terminal have the Python scheduler's headings and a bar for each bin, and colours only if colored is
// set.
func TestPlots(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		r := someReport(t)
		plain, colored := r.Plots(false), r.Plots(true)
		if !strings.HasPrefix(plain, "Visit time histogram for eventful visits:\n") || !strings.Contains(plain, "\nMetrics over time:\n") {
			t.Errorf("no headings in\n%s", plain)
		}
		if strings.Contains(plain, "\x1b") || !strings.Contains(colored, "\x1b") {
			t.Errorf("colours: %q and %q", plain, colored)
		}
		for _, b := range r.histogram(textBins) {
			if want := fmt.Sprintf(" %d\n", b.Count); !strings.Contains(plain, want) {
				t.Errorf("no bin of %d in\n%s", b.Count, plain)
			}
		}
	})
}

// The text and the table of figures equal the Python scheduler's.
func TestReport(t *testing.T) {
	t.Parallel()
	r := &Report{worked: make(map[string]time.Duration)}
	for _, v := range []struct {
		load
		eventful bool
	}{
		{load{runTime: 3600, full: true}, true}, {load{runTime: 3600.1, full: true}, true},
		{load{runTime: 3601, full: true}, false}, {load{runTime: 7200}, false},
	} {
		r.visited(running{load: v.load}, v.eventful)
	}
	if want := "Total visits: 4\nUneventful visits: 1\nEventful visits: 2\nVery long running tasks: 1\n"; r.Text() != want {
		t.Errorf("got %q, want %q", r.Text(), want)
	}
	at := time.Date(2026, 11, 21, 7, 30, 0, 120_000, time.UTC)
	r.measure(at, countsOf([]model.Metrics{
		{OriginsKnown: 5, OriginsEnabled: 4, OriginsNeverVisited: 3, OriginsWithPendingChanges: 2},
		{OriginsKnown: 50, OriginsEnabled: 40, OriginsNeverVisited: 30, OriginsWithPendingChanges: 20},
	}), nil)
	var csv strings.Builder
	want := "timestamp,known_origins,enabled_origins,never_visited_origins,origins_with_pending_changes\r\n" +
		"2026-11-21 07:30:00.000120+00:00,55,44,33,22\r\n"
	if err := r.WriteCSV(&csv); err != nil || csv.String() != want {
		t.Errorf("got %q, %v, want %q", csv.String(), err, want)
	}
}
