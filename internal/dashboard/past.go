package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// pastRange is a range of the past that pages show, in steps.
type pastRange struct {
	Name, Word string // in addresses, and on pages
	span       string // of ledger.Past
	steps      int    // number of ended steps, before the one in progress
	step       time.Duration
}

var pastRanges = []pastRange{
	{"3h", "3 hours", "", 36, 5 * time.Minute},
	{"30d", "30 days", "hour", 60, 12 * time.Hour},
	{"2y", "2 years", "day", 52, 14 * 24 * time.Hour},
}

// rangeOf returns the range in the address, by default the shortest one.
func (r *Request) rangeOf() (pastRange, error) {
	name := r.Word("range")
	if name == "" {
		return pastRanges[0], nil
	}
	for _, p := range pastRanges {
		if p.Name == name {
			return p, nil
		}
	}
	return pastRange{}, refuseWord(r.URL.Query(), "range", "3h, 30d or 2y")
}

// rangeLink is a link to the same page with another range.
type rangeLink struct {
	Word, Path string
	Here       bool
}

// links returns the links to a page with each range. path is from the base.
func (p pastRange) links(path string, query ...any) (all []rangeLink) {
	for i, other := range pastRanges {
		name := other.Name
		if i == 0 {
			name = ""
		}
		all = append(all, rangeLink{other.Word, address(path, append([]any{"range", name}, query...)...), other == p})
	}
	return all
}

// past returns the range as a ledger.Past that ends now.
func (p pastRange) past(now time.Time) ledger.Past {
	step := int64(p.step / time.Second)
	return ledger.Past{Span: p.span, Step: p.step, Since: time.Unix((now.Unix()/step-int64(p.steps))*step, 0).UTC()}
}

// series counts the ended work of a type in each step of a range.
type series struct {
	Since  time.Time `json:"since"` // start of the first step
	Step   float64   `json:"step_seconds"`
	Ended  []int64   `json:"ended"`
	Failed []int64   `json:"failed"`
}

func newSeries(p ledger.Past, steps int) *series {
	return &series{Since: p.Since, Step: p.Step.Seconds(), Ended: make([]int64, steps+1), Failed: make([]int64, steps+1)}
}

func (s *series) steps() steps {
	return steps{s.Since, model.Duration(s.Step)}
}

// add counts ended work in a step, numbered since 1970.
func (s *series) add(step, ended, failed int64) {
	if i := step - s.Since.Unix()/int64(s.Step); i >= 0 && i < int64(len(s.Ended)) {
		s.Ended[i] += ended
		s.Failed[i] += failed
	}
}

// Chart draws the series.
func (s *series) chart(title string) chart { return band(title, s.steps(), s.Ended, s.Failed) }

// Spark returns the series as a small chart for a cell; s may be nil.
func (s *series) Spark() chart {
	if s == nil {
		return chart{}
	}
	return spark(s.steps(), s.Ended, s.Failed)
}

// FailedSpark returns the failures as a small chart for a cell; s may be nil.
func (s *series) FailedSpark() chart {
	if s == nil {
		return chart{}
	}
	c := chart{Text: fmt.Sprintf("%s failed, at most %s in %s.", number(sum(s.Failed)), number(peak(s.Failed)), s.steps().each()), Axis: 100}
	c.mark("failed", bars(s.Failed, peak(s.Failed), 100, -100))
	return c
}

// readPast reads the ended work of each type in the shortest range. Type "" has the totals of each source.
func (d *Dashboard) readPast(ctx context.Context) (map[ledger.EndedKey]*series, error) {
	r := pastRanges[0]
	p := r.past(d.Reads.Now())
	rows, err := d.Reads.EndedSteps(ctx, p)
	all := map[ledger.EndedKey]*series{{Source: ledger.EndedByWorker}: newSeries(p, r.steps), {Source: ledger.EndedByJournal}: newSeries(p, r.steps)}
	for _, row := range rows {
		key := ledger.EndedKey{Source: row.Source, Type: row.Type}
		if all[key] == nil {
			all[key] = newSeries(p, r.steps)
		}
		failed := failures(row.Source, map[string]int64{row.Status: row.Pieces})
		all[key].add(row.Step, row.Pieces, failed)
		if total := all[ledger.EndedKey{Source: row.Source}]; total != nil {
			total.add(row.Step, row.Pieces, failed)
		}
	}
	return all, err
}

// perhaps is a number of seconds. NaN is unknown, and null in JSON.
type perhaps float64

func (p perhaps) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(p)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(p))
}

// quantiles are quantiles of the durations in each step.
type quantiles struct {
	Since time.Time `json:"since"`
	Step  float64   `json:"step_seconds"`
	P50   []perhaps `json:"p50"`
	P95   []perhaps `json:"p95"`
}

// quantilesOf computes quantiles of the cells of a range.
func quantilesOf(p ledger.Past, n int, cells []ledger.EndedCell) quantiles {
	q := quantiles{Since: p.Since, Step: p.Step.Seconds()}
	bySteps := make([]lanes.Sketch, n+1)
	first := p.Since.Unix() / int64(q.Step)
	for _, c := range cells {
		if i := c.Step - first; c.Bucket >= 0 && i >= 0 && i < int64(len(bySteps)) {
			if bySteps[i] == nil {
				bySteps[i] = lanes.Sketch{}
			}
			bySteps[i][c.Bucket] += float64(c.Pieces)
		}
	}
	for _, s := range bySteps {
		p50, p95 := math.NaN(), math.NaN()
		if s != nil {
			p50, p95 = s.Quantile(0.5), s.Quantile(0.95)
		}
		q.P50, q.P95 = append(q.P50, perhaps(p50)), append(q.P95, perhaps(p95))
	}
	return q
}

func (q quantiles) chart(title string) chart {
	plain := func(all []perhaps) (f []float64) {
		for _, p := range all {
			f = append(f, float64(p))
		}
		return f
	}
	return times(title, steps{q.Since, model.Duration(q.Step)}, curve{"p50", "half within", plain(q.P50)}, curve{"p95", "95 % within", plain(q.P95)})
}
