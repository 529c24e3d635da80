package freshsim

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/page"
)

// UselessPart returns the fraction of visits that found nothing.
func (r Report) UselessPart() float64 { return float64(r.Useless) / float64(max(1, r.Visits)) }

// FoundPerHour returns the number of changes found per hour of a worker's time.
func (r Report) FoundPerHour() float64 { return float64(r.Found) / max(r.Busy*24, 1e-9) }

// busyPart returns the part of the workers' time in which they were busy.
func (r Report) busyPart(o Options) float64 { return r.Busy / (o.Runtime * float64(o.Workers)) }

// Text formats reports for a terminal.
func Text(reports []Report, o Options) string {
	lines := []string{"POLICY\tMEAN STALENESS>\tP95>\tWORST>\tSTALE>\tVISITS>\tUSELESS>\tCHANGES AN HOUR>\tBUSY>"}
	for _, r := range reports {
		lines = append(lines, fmt.Sprintf("%s\t%.3f days\t%.2f days\t%.0f days\t%.1f %%\t%d\t%d (%.0f %%)\t%.2f\t%.0f %%", r.Policy, r.Mean, r.P95, r.Worst,
			100*r.Stale, r.Visits, r.Useless, 100*r.UselessPart(), r.FoundPerHour(), 100*r.busyPart(o)))
	}
	return pytext.Terminal{}.Columns(lines)
}

// Summary returns reports for JSON. Times are in days.
func Summary(reports []Report, o Options) []map[string]any {
	var all []map[string]any
	for _, r := range reports {
		all = append(all, map[string]any{
			"policy": r.Policy, "mean_staleness": r.Mean, "p95_staleness": r.P95, "worst_staleness": r.Worst, "stale": r.Stale, "mean_staleness_hinted": r.Hinted,
			"visits": r.Visits, "useless_visits": r.Useless, "failed_visits": r.Failed, "changes_per_worker_hour": r.FoundPerHour(), "busy": r.busyPart(o),
		})
	}
	return all
}

// figures are plotted over time.
var figures = []struct {
	title, column string
	of            func(Sample) float64
}{
	{"Mean staleness, in days", "mean_staleness", func(s Sample) float64 { return s.Mean }},
	{"Stale origins, in per cent", "stale_per_cent", func(s Sample) float64 { return 100 * s.Stale }},
	{"Useless visits, in per cent", "useless_per_cent", func(s Sample) float64 { return 100 * s.Useless }},
}

// charts returns plots of the figures over time, with a line for each policy.
func charts(reports []Report) (all []page.Chart) {
	for _, f := range figures {
		var lines []page.Line
		for _, r := range reports {
			l := page.Line{Name: r.Policy}
			for _, s := range r.Series {
				l.Points = append(l.Points, page.Point{X: s.At, Y: f.of(s)})
			}
			lines = append(lines, l)
		}
		all = append(all, page.LineChart(f.title, "simulated days", lines))
	}
	return all
}

// WriteHTML writes a page with the figures and plots of reports.
func WriteHTML(w io.Writer, reports []Report, settings []page.Row) error {
	p := page.Page{
		Title: "Policies of visits, side by side", Settings: settings, Charts: charts(reports),
		Intro: "Staleness is for how long the archive has lacked the oldest change that it lacks.",
	}
	for _, r := range reports {
		p.Figures = append(p.Figures,
			page.Row{Name: r.Policy + ": mean staleness, days", Value: fmt.Sprintf("%.3f", r.Mean)},
			page.Row{Name: r.Policy + ": 95th percentile, days", Value: fmt.Sprintf("%.2f", r.P95)},
			page.Row{Name: r.Policy + ": useless visits", Value: fmt.Sprintf("%s of %s", pytext.Thousands(r.Useless), pytext.Thousands(r.Visits))},
			page.Row{Name: r.Policy + ": changes an hour of a worker", Value: fmt.Sprintf("%.2f", r.FoundPerHour())})
	}
	return p.Write(w)
}

// WriteCSV writes the figures of reports over time.
func WriteCSV(w io.Writer, reports []Report) error {
	rows := [][]string{{"policy", "day"}}
	for _, f := range figures {
		rows[0] = append(rows[0], f.column)
	}
	for _, r := range reports {
		for _, s := range r.Series {
			fields := []string{r.Policy, strconv.FormatFloat(s.At, 'f', 2, 64)}
			for _, f := range figures {
				fields = append(fields, strconv.FormatFloat(f.of(s), 'g', 5, 64))
			}
			rows = append(rows, fields)
		}
	}
	file := csv.NewWriter(w)
	file.UseCRLF = true
	return file.WriteAll(rows)
}
