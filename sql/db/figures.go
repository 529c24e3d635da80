package db

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/ledger"
)

// FigureKind is a kind of sample.
type FigureKind string

const (
	QueueFigures     FigureKind = "queue"     // by queue: messages ready, messages with workers, outgoing, in its lane's backlog; consumers
	ShareFigures     FigureKind = "share"     // by queue and group: the part that the group is entitled to, and the part that it has
	OriginFigures    FigureKind = "origins"   // by visit type: origins known, enabled, never visited, changed; the time of the count, in seconds since 1970
	PoolFigures      FigureKind = "pools"     // by visit type, as PoolCounts
	StalenessFigures FigureKind = "staleness" // by visit type: origins; the sum of their staleness in seconds; both for origins with a known last update
	VisitFigures     FigureKind = "visits"    // by visit type, in five minutes: visits; failed visits; ends with a known runtime; the sum of these runtimes in seconds
)

// Figure is a sample. An unknown value is NaN.
type Figure struct {
	Kind       FigureKind
	Name, Part string
	Values     []float64
}

const (
	// FiguresEvery is the time between two samples.
	FiguresEvery = 5 * time.Minute

	maxFigures    = 300 // of a kind in a sample: those with the greatest values
	maxFigureName = 200 // bytes of a name or a part; longer ones are not stored
)

// NoteFigures adds a sample of the kinds. It omits figures whose values are all zero.
func (s MonitorStore) NoteFigures(ctx context.Context, now time.Time, kinds []FigureKind, all []Figure) error {
	day := now.UTC().Truncate(24 * time.Hour)
	p := queries.AddFiguresParams{Spans: []string{"five", "hour", "day"}, Since: []time.Time{now.UTC().Truncate(FiguresEvery), now.UTC().Truncate(time.Hour), day}}
	add := func(f Figure) {
		values := make([]string, len(f.Values))
		for i, v := range f.Values {
			values[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
		p.Figures, p.Names, p.Parts, p.Sums = append(p.Figures, string(f.Kind)), append(p.Names, f.Name), append(p.Parts, f.Part), append(p.Sums, "{"+strings.Join(values, ",")+"}")
	}
	for _, kind := range kinds {
		add(Figure{Kind: kind})
		var of []Figure
		seen := map[FigureKey]bool{} // several types of one queue may have shares, each with the same figure
		for _, f := range all {
			key := FigureKey{f.Name, f.Part}
			if f.Kind != kind || seen[key] {
				continue
			}
			seen[key] = true
			zero := !slices.ContainsFunc(f.Values, func(v float64) bool { return v != 0 })
			if f.Name != "" && !zero && len(f.Name) <= maxFigureName && len(f.Part) <= maxFigureName {
				of = append(of, f)
			}
		}
		slices.SortStableFunc(of, func(a, b Figure) int { return cmp.Compare(slices.Max(b.Values), slices.Max(a.Values)) })
		for _, f := range of[:min(len(of), maxFigures)] {
			add(f)
		}
	}
	return stmt.Failed(s.q.AddFigures(ctx, p), "add figures")
}

// ForgetFigures deletes old samples.
func (s MonitorStore) ForgetFigures(ctx context.Context) error {
	return stmt.Failed(s.q.ForgetFigures(ctx), "delete old figures")
}

// SampleOrigins adds a sample of the counts of origins, pools, staleness and visits. It needs no broker.
func (s MonitorStore) SampleOrigins(ctx context.Context, now time.Time) error {
	counts, err := s.CountsOfListers(ctx)
	if err != nil {
		return err
	}
	pools, err := bulk.ResultOf[originCounts](ctx, s.q, originWalk)
	if err != nil {
		return err
	}
	stale, err := s.rooms.FreshnessCounts(ctx)
	if err != nil {
		return err
	}
	visits, err := s.visitsInFive(ctx)
	if err != nil {
		return err
	}
	var all []Figure
	for visitType, f := range flowsOf(counts) {
		all = append(all, Figure{OriginFigures, visitType, "", []float64{float64(f.Known), float64(f.Enabled), float64(f.Never), float64(f.Changed), seconds(f.Counted)}})
	}
	for visitType, p := range pools.Pools {
		all = append(all, Figure{PoolFigures, visitType, "", []float64{float64(p.WithoutUpdate), float64(p.NeverLoaded), float64(p.Lagging), float64(p.Others)}})
	}
	for visitType, c := range stale {
		all = append(all, Figure{StalenessFigures, visitType, "", []float64{float64(c.Origins), c.Staleness, float64(c.Measured), c.MeasuredStaleness}})
	}
	for visitType, v := range visits {
		all = append(all, Figure{VisitFigures, visitType, "", v[:]})
	}
	return s.NoteFigures(ctx, now, []FigureKind{OriginFigures, PoolFigures, StalenessFigures, VisitFigures}, all)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// visitsInFive returns VisitFigures by visit type: the journal's count of visits, or the workers' if that
// is greater.
func (s MonitorStore) visitsInFive(ctx context.Context) (map[string]*[4]float64, error) {
	rows, err := s.q.VisitsInFive(ctx)
	visits := map[string]*[4]float64{}
	for _, r := range rows {
		visitType := r.Type
		if r.Source == ledger.EndedByWorker {
			var loads bool
			if visitType, loads = model.LoadedVisitType(r.Type); !loads {
				continue
			}
		}
		v := visits[visitType]
		if v == nil {
			v = new([4]float64)
			visits[visitType] = v
		}
		if r.Source == ledger.EndedByWorker {
			v[2], v[3] = float64(r.Timed), r.Seconds
		}
		if n := float64(r.Pieces); n > v[0] {
			v[0], v[1] = n, float64(r.Failed)
		}
	}
	return visits, stmt.Failed(err, "read what ended in five minutes")
}

// ListerCounts are update-metrics' counts of a lister's origins of a visit type. VisitType is "" if it
// counted none. An unknown time is the epoch.
type ListerCounts = queries.CountsOfListersRow

// CountsOfListers returns the counts of all listers.
func (s MonitorStore) CountsOfListers(ctx context.Context) ([]ListerCounts, error) {
	rows, err := s.q.CountsOfListers(ctx)
	return rows, stmt.Failed(err, "read the counts of listers")
}

// flowsOf sums the counts of listers by visit type.
func flowsOf(counts []ListerCounts) map[string]*freshness.Flow {
	flows := map[string]*freshness.Flow{}
	weights, moments := map[string]float64{}, map[string]float64{}
	for _, c := range counts {
		if c.VisitType == "" || c.Counted.Unix() == 0 {
			continue
		}
		f := flows[c.VisitType]
		if f == nil {
			f = &freshness.Flow{VisitType: c.VisitType}
			flows[c.VisitType] = f
		}
		f.Known, f.Enabled, f.Never, f.Changed = f.Known+c.Known, f.Enabled+c.Enabled, f.Never+c.Never, f.Changed+c.Changed
		weight := float64(c.Known + 1)
		weights[c.VisitType] += weight
		moments[c.VisitType] += weight * seconds(c.Counted)
	}
	for visitType, f := range flows {
		f.Counted = time.UnixMilli(int64(1000 * moments[visitType] / weights[visitType])).UTC()
	}
	return flows
}

const (
	flowWindow = 7 * 24 * time.Hour // the window of growth and visits
	leastApart = 4 * time.Minute    // the least time between two counts for a growth rate: less than FiguresEvery, so that two samples are enough
)

// Flows returns the inputs of forecasts, by visit type in the order of names, for visit types with counts
// of listers or with visits. It leaves Consumers unset.
func (s MonitorStore) Flows(ctx context.Context, counts []ListerCounts, now time.Time) ([]freshness.Flow, error) {
	flows := flowsOf(counts)
	rows, err := s.q.LastFigures(ctx, queries.LastFiguresParams{Figure: string(OriginFigures), Since: now.Add(-flowWindow)})
	if err != nil {
		return nil, stmt.Failed(err, "read earlier counts of origins")
	}
	mean := map[[2]string][]float64{}
	for _, r := range rows {
		if r.Samples > 0 && len(r.Sums) >= 5 {
			values := make([]float64, len(r.Sums))
			for i := range values {
				values[i] = r.Sums[i] / float64(r.Samples)
			}
			mean[[2]string{r.Name, r.Place}] = values
		}
	}
	visits, err := s.FiguresOver(ctx, VisitFigures, nil, ledger.Past{Span: "day", Since: now.Add(-flowWindow).UTC().Truncate(24 * time.Hour), Step: 30 * 24 * time.Hour}, now)
	if err != nil {
		return nil, err
	}
	for key := range visits.Of {
		if flows[key.Name] == nil {
			flows[key.Name] = &freshness.Flow{VisitType: key.Name}
		}
	}
	samples := 0.
	for _, n := range visits.Samples {
		samples += float64(n)
	}
	for visitType, f := range flows {
		last := mean[[2]string{visitType, "last"}]
		for _, place := range []string{"hour", "five"} {
			first := mean[[2]string{visitType, place}]
			if last == nil || first == nil || last[4]-first[4] < leastApart.Seconds() {
				continue
			}
			days := (last[4] - first[4]) / 86400
			f.Growth = &freshness.Growth{Over: time.Duration(days * float64(24*time.Hour)), Known: (last[0] - first[0]) / days, Never: (last[2] - first[2]) / days, Changed: (last[3] - first[3]) / days}
			break
		}
		if samples == 0 {
			continue
		}
		var sums [4]float64
		for step, values := range visits.Of[FigureKey{Name: visitType}] {
			for i := range min(len(values), len(sums)) {
				sums[i] += values[i] * float64(visits.Samples[step])
			}
		}
		over := time.Duration(samples) * FiguresEvery
		f.Visits = &freshness.Visits{Over: over, PerDay: sums[0] / (float64(over) / float64(24*time.Hour)), Ends: int64(sums[2] + 0.5)}
		if f.Visits.Ends > 0 {
			f.Visits.Took = sums[3] / sums[2]
		}
	}
	list := make([]freshness.Flow, 0, len(flows))
	for _, visitType := range slices.Sorted(maps.Keys(flows)) {
		list = append(list, *flows[visitType])
	}
	return list, nil
}

// Listing reports whether a lister still lists at its usual pace.
func Listing(c ListerCounts, now time.Time) freshness.ListingState {
	moment := func(t time.Time) time.Time {
		if t.Unix() == 0 {
			return time.Time{}
		}
		return t
	}
	return freshness.ListingOf(moment(c.Finished), moment(c.Previous), now)
}

// flowsAndListers returns Flows, and the numbers of listers that are behind or have stopped.
func (s MonitorStore) flowsAndListers(ctx context.Context, now time.Time) ([]freshness.Flow, map[freshness.ListingState]int, error) {
	counts, err := s.CountsOfListers(ctx)
	if err != nil {
		return nil, nil, err
	}
	late := map[freshness.ListingState]int{freshness.ListingBehind: 0, freshness.ListingStopped: 0}
	for i, c := range counts {
		again := i > 0 && c.Name == counts[i-1].Name && c.InstanceName == counts[i-1].InstanceName // the same lister with another visit type
		if state := Listing(c, now); !again && (state == freshness.ListingBehind || state == freshness.ListingStopped) {
			late[state]++
		}
	}
	flows, err := s.Flows(ctx, counts, now)
	return flows, late, err
}

// FigureKey identifies a figure within its kind.
type FigureKey struct{ Name, Part string }

// FigureSeries are the means of figures over the steps of a past.
type FigureSeries struct {
	Samples []int64                   // by step
	Of      map[FigureKey][][]float64 // by step: nil if there is no sample or all values are zero; NaN is an unknown value
}

// Values returns value i of each step, or NaN for a step without a sample.
func (f FigureSeries) Values(key FigureKey, i int) []float64 {
	values := make([]float64, len(f.Samples))
	for step, n := range f.Samples {
		if n == 0 {
			values[step] = math.NaN()
		} else if of := f.Of[key]; of != nil && i < len(of[step]) {
			values[step] = of[step][i]
		}
	}
	return values
}

// FiguresOver returns the figures of a kind over the past up to now. If keys is empty, it returns all;
// otherwise those of keys and possibly more.
func (s MonitorStore) FiguresOver(ctx context.Context, kind FigureKind, keys []FigureKey, p ledger.Past, now time.Time) (FigureSeries, error) {
	first, last := p.Steps(now)
	series := FigureSeries{Samples: make([]int64, last-first+1), Of: map[FigureKey][][]float64{}}
	span := cmp.Or(p.Span, "five")
	wanted := queries.FiguresOverParams{Span: span, Figure: string(kind), Names: []string{""}, Parts: []string{""}, Everything: len(keys) == 0, Since: p.Since}
	for _, key := range keys {
		wanted.Names, wanted.Parts = append(wanted.Names, key.Name), append(wanted.Parts, key.Part)
	}
	rows, err := s.q.FiguresOver(ctx, wanted)
	if err != nil {
		return series, stmt.Failed(err, "read figures over time")
	}
	for _, r := range rows {
		step := r.Since.Unix()/int64(p.Step/time.Second) - first
		if step < 0 || step >= int64(len(series.Samples)) {
			continue
		}
		if r.Name == "" {
			series.Samples[step] += r.Samples
			continue
		}
		key := FigureKey{r.Name, r.Part}
		of := series.Of[key]
		if of == nil {
			of = make([][]float64, len(series.Samples))
			series.Of[key] = of
		}
		for len(of[step]) < len(r.Sums) {
			of[step] = append(of[step], 0)
		}
		for i, sum := range r.Sums {
			of[step][i] += sum
		}
	}
	for _, of := range series.Of {
		for step, values := range of {
			for i := range values {
				values[i] /= float64(max(series.Samples[step], 1))
			}
		}
	}
	return series, nil
}

// Consumers returns the number of consumers by queue at the last sample. It returns nil if that sample is
// older than a quarter of an hour.
func (s MonitorStore) Consumers(ctx context.Context, now time.Time) (map[string]int, error) {
	p := ledger.Past{Since: now.Add(-3 * FiguresEvery), Step: FiguresEvery}
	series, err := s.FiguresOver(ctx, QueueFigures, nil, p, now)
	consumers := map[string]int{}
	for step, n := range slices.Backward(series.Samples) {
		if n == 0 {
			continue
		}
		for key, of := range series.Of {
			if values := of[step]; len(values) > 4 && !math.IsNaN(values[4]) {
				consumers[key.Name] = int(values[4] + 0.5)
			}
		}
		return consumers, err
	}
	return nil, err
}
