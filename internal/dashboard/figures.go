package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// levels are sampled values by step, such as the length of a queue.
type levels struct {
	Title string     `json:"title"`
	Since time.Time  `json:"since"`
	Step  float64    `json:"step_seconds"`
	Lines []levelsOf `json:"lines"`

	format func(float64) string
}

type levelsOf struct {
	Name   string    `json:"name"`
	Values []perhaps `json:"values"` // by step; null: unknown
}

// levelClasses are the classes of the lines. Each has its own dashes.
var levelClasses = []string{"p50", "p95", "third", "fourth"}

// sampled selects the values of a figure to draw, by position, with their names.
type sampled struct {
	title  string
	kind   db.FigureKind
	key    db.FigureKey
	names  []string // names of the values in order; "" is left out
	format func(float64) string
	value  func(of []float64, i int) float64 // nil: of[i]
	counts bool                              // unknown until the first count; for other figures a missing sample is 0
}

// levelsOver reads figures over a range, with one query for each kind.
func (r *Request) levelsOver(ctx context.Context, of pastRange, all []sampled) ([]levels, error) {
	past := of.past(r.Now)
	keys := map[db.FigureKind][]db.FigureKey{}
	for _, s := range all {
		if !slices.Contains(keys[s.kind], s.key) {
			keys[s.kind] = append(keys[s.kind], s.key)
		}
	}
	series := map[db.FigureKind]db.FigureSeries{}
	drawn := []levels{}
	for _, s := range all {
		if _, read := series[s.kind]; !read {
			var err error
			if series[s.kind], err = r.Reads.FiguresOver(ctx, s.kind, keys[s.kind], past, r.Now); err != nil {
				return nil, err
			}
		}
		l := levels{Title: s.title, Since: past.Since, Step: past.Step.Seconds(), format: s.format}
		for i, name := range s.names {
			if name == "" {
				continue
			}
			line := levelsOf{Name: name}
			for step, n := range series[s.kind].Samples {
				value := math.NaN()
				if values := series[s.kind].Of[s.key]; n > 0 && (values == nil || values[step] == nil) {
					if !s.counts {
						value = 0
					}
				} else if n > 0 && i < len(values[step]) {
					value = values[step][i]
					if s.value != nil {
						value = s.value(values[step], i)
					}
				}
				line.Values = append(line.Values, perhaps(value))
			}
			l.Lines = append(l.Lines, line)
		}
		drawn = append(drawn, l)
	}
	return drawn, nil
}

// Chart draws the levels.
func (l levels) Chart() chart {
	c := chart{Title: l.Title, Head: []string{"From (UTC)"}}
	s := steps{l.Since, model.Duration(l.Step)}
	most, known, n := 0., 0, 0
	for _, line := range l.Lines {
		n = len(line.Values)
		c.Head = append(c.Head, line.Name)
		for _, v := range line.Values {
			if !math.IsNaN(float64(v)) {
				most, known = max(most, float64(v)), known+1
			}
		}
	}
	if known == 0 {
		c.Text = "Nothing was sampled."
		return c
	}
	c.Labels = s.labels(n)
	var said []string
	width := 100 / float64(n)
	for k, line := range l.Lines {
		var path strings.Builder
		down, last, greatest := false, math.NaN(), 0.
		for i, v := range line.Values {
			value := float64(v)
			if math.IsNaN(value) {
				down = false
				continue
			}
			word := "L"
			if !down {
				word = "M"
			}
			y := 100.
			if most > 0 {
				y = 100 * (1 - 0.96*value/most)
			}
			fmt.Fprintf(&path, "%s%s %sh%s", word, short(float64(i)*width), short(y), short(width))
			down, last, greatest = true, value, max(greatest, value)
		}
		class := levelClasses[k%len(levelClasses)]
		c.mark(class, path.String())
		c.Keys = append(c.Keys, chartKey{class, line.Name})
		if !math.IsNaN(last) {
			said = append(said, fmt.Sprintf("%s: %s at the end, %s at most", line.Name, l.format(last), l.format(greatest)))
		}
	}
	c.Text = strings.Join(said, "; ") + ". The scale goes from 0 to " + l.format(most) + "."
	for i := range n {
		row := []string{s.text(i)}
		for _, line := range l.Lines {
			if v := float64(line.Values[i]); math.IsNaN(v) {
				row = append(row, "")
			} else {
				row = append(row, l.format(v))
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

func plainNumber(v float64) string { return number(v) }

func perCent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func inSeconds(v float64) string { return seconds(v) }

// messageNames are the values of a queue's figure that count messages.
var messageNames = []string{"ready", "unacknowledged", "being sent", "backlog"}

// levelsOfType returns the messages over time in the first drawnQueues queues of a task type.
func (r *Request) levelsOfType(ctx context.Context, of pastRange, queues []status.Queue) ([]levels, error) {
	var all []sampled
	for _, q := range queues[:min(len(queues), drawnQueues)] {
		all = append(all, sampled{title: "Messages in " + pytext.Visible(q.Queue), kind: db.QueueFigures, key: db.FigureKey{Name: q.Queue}, names: messageNames, format: plainNumber})
	}
	return r.levelsOver(ctx, of, all)
}

const (
	drawnQueues = 3 // for a task type
	drawnGroups = 4 // for a queue: the groups with the greatest shares
	drawnTypes  = 3 // visit types: those with the greatest backlogs
)

// queueLevels returns a queue's figures over time. For each of its groups they contain the target and the actual share.
func (r *Request) queueLevels(ctx context.Context, of pastRange, queue string) ([]levels, error) {
	groups, _ := r.now.groups.part(ctx, r.Dashboard)
	key := db.FigureKey{Name: queue}
	all := []sampled{
		{title: "Messages", kind: db.QueueFigures, key: key, names: messageNames, format: plainNumber},
		{title: "Consumers", kind: db.QueueFigures, key: key, names: []string{"", "", "", "", "consumers"}, format: plainNumber},
	}
	own := slices.DeleteFunc(slices.Clone(groups), func(g status.Group) bool { return g.Queue != queue })
	slices.SortStableFunc(own, func(a, b status.Group) int {
		return cmp.Or(cmp.Compare(max(b.Entitled, b.Now, b.Hour), max(a.Entitled, a.Now, a.Hour)), strings.Compare(a.Group, b.Group))
	})
	for _, g := range own[:min(len(own), drawnGroups)] {
		all = append(all, sampled{title: "Share of " + groupName(g.Group), kind: db.ShareFigures, key: db.FigureKey{Name: queue, Part: g.Group}, names: []string{"target", "now"}, format: perCent})
	}
	return r.levelsOver(ctx, of, all)
}

// typeLevels returns visit types over time: origins without a visit, pools, and the staleness if it is known.
func (r *Request) typeLevels(ctx context.Context, of pastRange, types []status.VisitTypeFreshness) ([]levels, error) {
	types = slices.Clone(types)
	slices.SortStableFunc(types, func(a, b status.VisitTypeFreshness) int { return cmp.Compare(b.Backlog, a.Backlog) })
	var all []sampled
	for _, t := range types[:min(len(types), drawnTypes)] {
		key, name := db.FigureKey{Name: t.VisitType}, pytext.Visible(t.VisitType)
		all = append(all,
			sampled{title: name + ": origins that lack a visit", kind: db.OriginFigures, key: key, names: []string{"", "", "never visited", "changed"}, format: plainNumber, counts: true},
			sampled{title: name + ": pools", kind: db.PoolFigures, key: key, names: []string{"without an update", "never loaded", "changed", "others"}, format: plainNumber, counts: true})
		if t.Staleness != nil {
			mean := func(of []float64, i int) float64 {
				if i == 0 || of[i-1] <= 0 {
					return math.NaN()
				}
				return of[i] / of[i-1]
			}
			all = append(all, sampled{title: name + ": staleness", kind: db.StalenessFigures, key: key, names: []string{"", "estimated", "", "measured"}, format: inSeconds, value: mean})
		}
	}
	return r.levelsOver(ctx, of, all)
}
