package freshness

// A Quality is how well a source's news of updates fits what visits find: that of a lister, or of hints. It is two Beta
// distributions: of the precision, which is the probability that news is right, and of the recall, which is the
// probability that a change is reported. A Quality has the observations, without the prior. The zero Quality has none.
type Quality struct {
	Right, Wrong     float64 // news with a change, and without
	Reported, Missed float64 // changes with news, and without
}

// UsualNews is the prior: the quality of the news of a source of which nothing is known.
var UsualNews = Quality{Right: 4.5, Wrong: 0.5, Reported: 4.5, Missed: 0.5}

// MostObserved bounds the observations of each distribution, so that it follows a source whose quality changes.
const MostObserved = 1000

// Bounds of the quality. Formulas divide by the precision and by the part of the changes without news.
const (
	minRecall, maxRecall       = 0.01, 0.995
	minPrecision, maxPrecision = 0.05, 0.999
)

// posterior returns the quality with the prior.
func (q Quality) posterior() Quality { return UsualNews.Add(q) }

// Precision returns the expected probability that news is right.
func (q Quality) Precision() float64 {
	q = q.posterior()
	return min(max(q.Right/(q.Right+q.Wrong), minPrecision), maxPrecision)
}

// Recall returns the expected probability that a change is reported.
func (q Quality) Recall() float64 {
	q = q.posterior()
	return min(max(q.Reported/(q.Reported+q.Missed), minRecall), maxRecall)
}

// Add returns the quality after further observations.
func (q Quality) Add(more Quality) Quality {
	q.Right, q.Wrong = faded(q.Right+more.Right, q.Wrong+more.Wrong)
	q.Reported, q.Missed = faded(q.Reported+more.Reported, q.Missed+more.Missed)
	return q
}

// faded returns two counts with a sum of at most MostObserved.
func faded(a, b float64) (float64, float64) {
	if sum := a + b; sum > MostObserved {
		return a * (MostObserved / sum), b * (MostObserved / sum)
	}
	return a, b
}
