package freshsim

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Signals is the quality of the news that a source reports of origins: a lister, or the hints of a forge.
type Signals struct {
	Recall float64 // the fraction of the changes that it reports
	False  float64 // the fraction of its reports that come without a change
	Delay  float64 // the mean time from a change to its report, beside the time until the next listing; exponential
	Coarse bool    // it reports the day of a change, not the moment
}

// String formats the signals for a page.
func (s Signals) String() string {
	text := fmt.Sprintf("recall %g, false %g", s.Recall, s.False)
	if s.Delay > 0 {
		text += fmt.Sprintf(", delay %.3g h", s.Delay/hour)
	}
	if s.Coarse {
		text += ", dates are days"
	}
	return text
}

// listers is the most listers that report updates. Their origins differ in nothing but the recall of the reports.
const listers = 4

// listers returns the number of listers: one if all have the same recall.
func (o Options) listers() int {
	if o.RecallTo > 0 {
		return listers
	}
	return 1
}

// news returns the quality of a lister's reports.
func (o Options) news(lister int) Signals {
	s := o.News
	if o.RecallTo > 0 && lister > 0 {
		s.Recall += (o.RecallTo - s.Recall) * float64(lister) / (listers - 1)
	}
	return s
}

// falseAfter is the mean time from a true report to the false one that it stands for. False reports are as frequent as
// their share of all reports demands, and hardly depend on the changes of the same month.
const falseAfter = 60 * day

// source is the state of a source of reports about an origin.
type source struct {
	Signals
	used    bool
	last    float64  // the date of the last visible report; that of the appearance before the first
	counted float64  // the day of the last true report
	pending []report // in no order
}

type report struct{ at, date float64 } // visible from at on

// change draws whether the source reports a change at t, and when.
func (s *source) change(t float64, random *rand.PCG) {
	if !s.used || uniform(random) >= s.Recall {
		return
	}
	s.report(t, t, random)
	// At most one false report for the true ones of a day: more changes of a day are no more news in a listing.
	if d := math.Floor(t); s.False > 0 && d != s.counted {
		s.counted = d
		// The number of false reports for a true one has the mean False / (1 − False).
		for share := s.False / (1 - s.False); share > 0; share-- {
			if uniform(random) < share {
				at := t + exponential(random)*falseAfter
				s.report(at, at, random)
			}
		}
	}
}

func (s *source) report(at, date float64, random *rand.PCG) {
	if s.Delay > 0 {
		at += exponential(random) * s.Delay
	}
	if s.Coarse {
		date = math.Floor(date)
	}
	s.pending = append(s.pending, report{at, date})
}

// advance makes the reports until t visible.
func (s *source) advance(t float64) {
	left := s.pending[:0]
	for _, r := range s.pending {
		if r.at > t {
			left = append(left, r)
		} else {
			s.last = max(s.last, r.date)
		}
	}
	s.pending = left
}

// uniform draws from [0, 1).
func uniform(random *rand.PCG) float64 { return float64(random.Uint64()>>11) / (1 << 53) }

func exponential(random *rand.PCG) float64 { return -math.Log1p(-uniform(random)) }
