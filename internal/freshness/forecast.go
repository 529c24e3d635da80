package freshness

import (
	"fmt"
	"math"
	"time"
)

// Flow is what is known of the visits of one visit type: the origins that lack a visit, and how fast they come and go.
type Flow struct {
	VisitType string
	// Counted is when update-metrics counted the origins, as a mean over their listers; zero: never.
	Counted                        time.Time
	Known, Enabled, Never, Changed int64   // origins; of the enabled ones, those never visited, and those that changed since their last visit
	Growth                         *Growth // nil: not known
	Visits                         *Visits // nil: not known
	Consumers                      *int    // that read its queues; nil: not known
}

// Growth is how counts of origins changed between two counts.
type Growth struct {
	Over                  time.Duration // between the counts
	Known, Never, Changed float64       // a day
}

// Visits is what ended over some time.
type Visits struct {
	Over   time.Duration
	PerDay float64
	Ends   int64   // whose runtime is known
	Took   float64 // mean seconds of these; not used if there are none
}

// Plan is what a forecast is asked for.
type Plan struct {
	Workers int       // parallel ones; 0: those of now
	By      time.Time // zero: not asked for
}

// Verdict says what a forecast says.
type Verdict string

const (
	VerdictDone    Verdict = "done"      // nothing lacks a visit
	VerdictGone    Verdict = "gone"      // the backlog goes
	VerdictNever   Verdict = "never"     // it does not, at this rate
	VerdictUnknown Verdict = "not known" // the data are missing
)

// longest is how far a forecast looks.
const longest = 100 * 365.25

// Forecast says when the backlog of a visit type is gone. Rates are a day, times are seconds; nil is not known.
type Forecast struct {
	Backlog     int64      `json:"backlog"` // never visited, or changed since the last visit
	New         *float64   `json:"new_per_day"`
	First       *float64   `json:"first_visits_per_day"`
	Slope       *float64   `json:"backlog_change_per_day"`
	VisitsADay  *float64   `json:"visits_per_day"`
	Took        *float64   `json:"mean_runtime"`
	Ends        int64      `json:"runtimes"`         // from so many ends
	Busy        *float64   `json:"parallel_workers"` // as visits a day and the mean runtime give
	Consumers   *int       `json:"consumers"`
	Verdict     Verdict    `json:"verdict"`
	GoneIn      *float64   `json:"gone_in"` // seconds
	GoneAt      *time.Time `json:"gone_at"`
	Needed      *int       `json:"workers_needed"` // for the day that was asked for
	Text        string     `json:"text"`
	NeededText  string     `json:"workers_needed_text"` // "" if no day was asked for
	Assumptions []string   `json:"assumptions"`
}

// Forecast predicts when the backlog is gone, and how many workers a day asks for.
//
// At the present rate, the backlog goes on to change as it did between two counts. With other workers, it changes by what comes, less what
// they visit. What comes is what is visited now and the change of the backlog, so a visit that takes nothing off
// the backlog has to be repeated: more workers than needed are predicted rather than fewer.
func (f Flow) Forecast(p Plan, now time.Time) Forecast {
	r := Forecast{Backlog: f.Never + f.Changed, Consumers: f.Consumers, Assumptions: []string{}}
	assume := func(format string, args ...any) { r.Assumptions = append(r.Assumptions, fmt.Sprintf(format, args...)) }
	if g := f.Growth; g != nil {
		r.New, r.Slope = new(g.Known), new(g.Never+g.Changed)
		r.First = new(max(0, g.Known-g.Never))
		assume("growth between two counts %s apart", span(g.Over))
	}
	if v := f.Visits; v != nil {
		r.VisitsADay, r.Ends = new(v.PerDay), v.Ends
		assume("visits over %s", span(v.Over))
		if v.Ends > 0 {
			r.Took, r.Busy = new(v.Took), new(v.PerDay*v.Took/86400)
			assume("mean runtime of %d ends", v.Ends)
		}
	}
	if f.Counted.IsZero() {
		r.Verdict, r.Text = VerdictUnknown, "not known: update-metrics has not counted its origins (update_metrics_after makes daemons count them)"
		if !p.By.IsZero() {
			r.NeededText = "not known"
		}
		return r
	}
	assume("origins as counted %s ago", span(now.Sub(f.Counted)))
	if p.Workers > 0 {
		assume("%d parallel workers, always busy", p.Workers)
	} else if r.Busy != nil {
		assume("as many parallel workers as now: %s", count(*r.Busy))
	}
	change, why := r.change(p.Workers)
	switch {
	case r.Backlog == 0:
		r.Verdict, r.Text = VerdictDone, "there is no backlog"
	case why != "":
		r.Verdict, r.Text = VerdictUnknown, "not known: "+why
	case change >= 0:
		r.Verdict, r.Text = VerdictNever, fmt.Sprintf("never at this rate: the backlog grows by %s a day", count(change))
	case float64(r.Backlog) > longest*-change:
		r.Verdict, r.Text = VerdictNever, "never at this rate: not in 100 years"
	default:
		days := float64(r.Backlog) / -change
		in := duration(days, math.MaxInt64)
		r.Verdict, r.GoneIn, r.GoneAt = VerdictGone, new(in.Seconds()), new(now.Add(in).UTC().Truncate(time.Second))
		r.Text = fmt.Sprintf("gone in %s", span(in))
	}
	if !p.By.IsZero() {
		r.need(p.By, now)
	}
	return r
}

// change returns by how much the backlog changes a day, with so many workers; 0 stands for those of now. why is "" unless that is not known.
func (r *Forecast) change(workers int) (perDay float64, why string) {
	if workers == 0 && r.Slope != nil {
		return *r.Slope, ""
	}
	demand, why := r.demand()
	if why != "" {
		return 0, why
	}
	return demand - float64(workers)*86400 / *r.Took, ""
}

// demand returns how many visits a day keep the backlog as it is.
func (r *Forecast) demand() (perDay float64, why string) {
	switch {
	case r.Slope == nil:
		return 0, "its origins were counted once only, so their growth is not known"
	case r.VisitsADay == nil:
		return 0, "no visits are counted"
	case r.Took == nil || *r.Took <= 0:
		return 0, "no runtime of a visit is known"
	}
	return max(0, *r.VisitsADay+*r.Slope), ""
}

// need computes how many workers empty the backlog by a day.
func (r *Forecast) need(by, now time.Time) {
	demand, why := r.demand()
	left := by.Sub(now).Hours() / 24
	switch {
	case why != "":
		r.NeededText = "not known: " + why
	case left <= 0:
		r.NeededText = "that day is over"
	default:
		n := math.Ceil((demand+float64(r.Backlog)/left)**r.Took/86400 - 1e-9)
		if n > math.MaxInt32 {
			r.NeededText = "more than can be counted"
			return
		}
		r.Needed = new(max(int(n), 0))
		r.NeededText = fmt.Sprintf("%d parallel workers until %s", *r.Needed, by.UTC().Format("2006-01-02 15:04 UTC"))
	}
}

// count formats a number, with a digit after the point if it is small.
func count(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// span formats a time roughly.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d >= 2*365*day:
		return fmt.Sprintf("%.1f years", days(d)/365.25)
	case d >= 2*day:
		return fmt.Sprintf("%.0f days", days(d))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// ListingState says whether a lister lists as it did.
type ListingState string

const (
	ListingOK      ListingState = "ok"
	ListingBehind  ListingState = "behind"    // the next listing is late
	ListingStopped ListingState = "stopped"   // no listing has ended for long
	ListingUnknown ListingState = "not known" // no listing was seen to end
)

// The bounds of ListingOf.
const (
	lateListing    = 2        // times the time between the last two listings, and
	leastLate      = day      // at least so long
	stoppedListing = 7        // times, and
	leastStopped   = 7 * day  // at least so long; and
	silentListing  = 30 * day // where only one listing is known
)

// ListingOf judges a lister by when its last two listings ended; zero times are not known.
func ListingOf(finished, previous, now time.Time) ListingState {
	if finished.IsZero() {
		return ListingUnknown
	}
	since, usual := now.Sub(finished), finished.Sub(previous)
	switch {
	case previous.IsZero() || usual <= 0:
		if since > silentListing {
			return ListingStopped
		}
	case since > max(stoppedListing*usual, leastStopped):
		return ListingStopped
	case since > max(lateListing*usual, leastLate):
		return ListingBehind
	}
	return ListingOK
}
